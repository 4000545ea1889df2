//! Method traces, which Traceview, Android Studio's profiler and dmtracedump read.
//!
//! [`read()`] takes the versions 1, 2 and 3 and ART's streaming formats; [`write()`] makes 2 and 3;
//! [`model`] goes from and to [`crate::Trace`].

mod format2;
mod model;
mod read;
mod write;

use crate::model::Losses;

pub use model::Dropped;
pub use read::read;
pub use write::write;

/// First bytes of a file: of its keys or (streaming) of its data.
pub(crate) const KEYS: &[u8] = b"*version";
pub(crate) const MAGIC: &[u8; 4] = b"SLOW";

/// Class of a slice that is not a method. Some readers accept no method without class, signature and file.
pub(crate) const SECTIONS: &str = "(section)";
const NO_SIGNATURE: &str = "()";

/// A method trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MethodTrace {
    /// Version 1, 2 or 3; 3 for a streamed trace.
    pub version: u16,
    /// True if records also have the thread's processor time.
    pub is_dual: bool,
    /// Start in µs of the trace's clock.
    pub start_us: u64,
    /// The `k=v` lines, in order.
    pub keys: Vec<(String, String)>,
    /// Id and name of each thread.
    pub threads: Vec<(u16, String)>,
    /// Methods in the file's order.
    pub methods: Vec<Method>,
    /// Records in the file's order.
    pub records: Vec<Record>,
    /// Errors in the file.
    pub losses: Losses,
}

/// A method.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Method {
    /// Id as in records; the lowest two bits are zero.
    pub id: u32,
    /// Class, or the whole name if it has no class.
    pub class: String,
    /// Name, if it has a class.
    pub name: Option<String>,
    /// Signature; if there is no line number, followed by a tab and the file.
    pub signature: String,
}

/// Action of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The method begins.
    Enter,
    /// The method ends.
    Exit,
    /// An exception leaves the method, or recording ended within it.
    Unroll,
}

/// A record. Times are µs since the trace's start; unlike those of files, they do not wrap after 71.6 minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The thread's id.
    pub thread: u16,
    /// Action.
    pub action: Action,
    /// The method's id.
    pub method: u32,
    /// First time of the record: the thread's processor time if there are two.
    pub time_us: u64,
    /// Last time of the record: wall time if there are two.
    pub wall_us: u64,
}

impl MethodTrace {
    /// Replaces methods' names (`class.name(signature)`) for which `change` returns another one.
    pub fn change(&mut self, change: impl Fn(&str) -> Option<String>) {
        for method in &mut self.methods {
            if let Some(new) = change(&method.text()) {
                *method = Method::from_text(method.id, new);
            }
        }
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&str> {
        self.keys.iter().rev().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }
}

impl Method {
    /// Formats a method as `class.name(signature)`, and a section as its name.
    #[must_use]
    pub fn text(&self) -> String {
        let signature = self.signature.split('\t').next().unwrap_or_default();
        let signature = if signature == NO_SIGNATURE { "" } else { signature };
        match &self.name {
            Some(name) if self.class == SECTIONS => name.clone(),
            Some(name) => format!("{}.{name}{signature}", self.class),
            None => self.class.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
