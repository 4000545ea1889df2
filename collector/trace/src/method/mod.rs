//! Method traces: what Traceview, Android Studio's profiler and dmtracedump read.
//!
//! [`read()`] takes the versions 1, 2 and 3 and ART's streaming format; [`write()`] makes 2 and 3;
//! [`model`] goes from and to [`crate::Trace`].

mod model;
mod read;
mod write;

use crate::model::Losses;

pub use model::Dropped;
pub use read::read;
pub use write::write;

/// What a file begins with, of its keys or (streaming) of its data.
pub(crate) const KEYS: &[u8] = b"*version";
pub(crate) const MAGIC: &[u8; 4] = b"SLOW";

/// The class of what is no method. Some readers take no method without class, signature and file.
pub(crate) const SECTIONS: &str = "(section)";
const NO_SIGNATURE: &str = "()";

/// A method trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MethodTrace {
    /// 1, 2 or 3; as 3 where it was streamed.
    pub version: u16,
    /// Whether records have the thread's processor time besides the time.
    pub is_dual: bool,
    /// When it began, µs of the trace's clock.
    pub start_us: u64,
    /// What its `k=v` lines say, in their order.
    pub keys: Vec<(String, String)>,
    /// Id and name.
    pub threads: Vec<(u16, String)>,
    /// In the file's order.
    pub methods: Vec<Method>,
    /// In the file's order.
    pub records: Vec<Record>,
    /// What could not be read.
    pub losses: Losses,
}

/// A method.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Method {
    /// As records have it: the lowest two bits are none.
    pub id: u32,
    /// Its class, or all that is known of it.
    pub class: String,
    /// Its name, if it has a class.
    pub name: Option<String>,
    /// Its signature; without a line number its file stands in it, behind a tab.
    pub signature: String,
}

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The method begins.
    Enter,
    /// It ends.
    Exit,
    /// It is left by an exception, or was closed when recording ended.
    Unroll,
}

/// A record. Times are µs from the trace's start; those of files wrap after 71.6 minutes, these do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The thread's id.
    pub thread: u16,
    /// What it says.
    pub action: Action,
    /// The method's id.
    pub method: u32,
    /// The first time of the record: the thread's processor time where there are two.
    pub time_us: u64,
    /// The last: wall time where there are two.
    pub wall_us: u64,
}

impl MethodTrace {
    /// Changes the methods' names (`class.name(signature)`), where `change` gives another one.
    pub fn change(&mut self, change: impl Fn(&str) -> Option<String>) {
        for method in &mut self.methods {
            if let Some(new) = change(&method.text()) {
                *method = Method::from_text(method.id, new);
            }
        }
    }

    /// What a key says.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&str> {
        self.keys.iter().rev().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }
}

impl Method {
    /// `class.name(signature)`; of a section its name.
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
