//! Metadata of a capture: in its header, in its upload, and beside it in a store.
//!
//! The agent writes it as a comment at the start of the text, the uploader adds the spool's data and sends it in
//! [`crate::http::META`], the collector stores it, and analyses read it. Every field may be missing. Members that are no
//! field (`device` of `tracetee_install`, other tools' metadata) are kept as they are.

use crate::death::Death;
use crate::json::{Decimal, Kind, Limits, Tree, Value, Writer};
use crate::record::{self, Json, to_json};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Bounds of metadata: other tools put whole descriptions of machines there.
const LIMITS: Limits = Limits { bytes: 1 << 20, depth: 64, nodes: 1 << 16 };

macro_rules! capture_meta {
    ($($(#[$doc:meta])* $field:ident: $type:ty,)*) => {
        /// Metadata of a capture.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct CaptureMeta {
            $($(#[$doc])* pub $field: Option<$type>,)*
            /// Further members, each with its JSON.
            pub other: BTreeMap<String, String>,
        }

        impl CaptureMeta {
            /// Takes members, each replacing an earlier one.
            pub(crate) fn take(&mut self, members: &mut dyn Iterator<Item = (Cow<'_, str>, Value<'_>)>) {
                let mut others = Vec::new();
                for (key, value) in members {
                    match &*key {
                        $(stringify!($field) => read(&mut self.$field, value),)*
                        _ => others.push((key.into_owned(), value.raw().to_owned())),
                    }
                }
                self.other.extend(others);
            }

            /// Takes the members of `newer`, replacing existing ones.
            pub fn merge(&mut self, newer: Self) {
                $(replace(&mut self.$field, newer.$field);)*
                self.other.extend(newer.other);
            }

            /// The members that are there, each with its JSON, in the order of their names.
            pub(crate) fn members(&self) -> Vec<(&str, String)> {
                let mut members = Vec::new();
                self.other.iter().for_each(|(name, json)| put(&mut members, name, json.clone()));
                $(put_field(&mut members, stringify!($field), &self.$field);)*
                members
            }
        }
    };
}

capture_meta! {
    /// Id of the capture, a UUID.
    id: String,
    /// Id of the window.
    window: String,
    /// Human-readable reason for the capture.
    why: String,
    /// Further reasons during the recording.
    also: Vec<String>,
    /// Time that the request for the window waited, because another window was captured, ms.
    waited_ms: u64,
    /// Id of that other window.
    waited_for: String,
    /// Kind of event that opened the window: `schedule`, `app_start`, `section`, `triggers` or `manual`.
    opens: String,
    /// Range that the text was cut to: boot time of its ends, ns.
    span_ns: (u64, u64),
    /// Sequence number of the configuration.
    config_seq: u64,
    /// Process id.
    pid: u32,
    /// Name of the process: an app may have several.
    process: String,
    /// Number of times that the system reset the tags during the recording.
    tag_resets: u64,
    /// Share of one processor that recording took, percent.
    overhead_percent: Decimal,
    /// Records that were lost.
    dropped: u64,
    /// Refresh rate of the display.
    refresh_hz: Decimal,
    /// Name of the screen at the beginning.
    screen: String,
    /// Id of the app (`com.example.app`).
    app: String,
    /// Packages of the app's own code, if the configuration names them.
    app_packages: Vec<String>,
    /// Version of the app in human-readable form.
    version_name: String,
    /// Version code of the app.
    version_code: u64,
    /// Id of the installation, which says nothing about the user.
    install_id: String,
    /// Model of the device.
    model: String,
    /// Android's API level.
    api: u64,
    /// True if the build is debuggable.
    debuggable: bool,
    /// True if the device is an emulator.
    emulator: bool,
    /// `android` or `linux`.
    os: String,
    /// Architecture of the process.
    arch: String,
    /// Version of the agent.
    agent: String,
    /// True if the agent notes each time in which the process stood still.
    notes_stops: bool,
    /// Captures of a lower priority go first when the spool is full.
    priority: u32,
    /// Unix time at which the capture was made, ms.
    made_ms: u64,
    /// True if the process was killed before it ended the capture.
    recovered: bool,
    /// Bytes that the capture had before it was cut for its size.
    cut_from_bytes: u64,
    /// The end of the process, where the capture has its last seconds.
    death: Death,
    /// True if members were left out because a header has little room.
    shortened: bool,
}

/// The member that says that others were left out.
const SHORTENED: &str = "shortened";

impl CaptureMeta {
    /// Reads metadata; `None` if it is not a JSON object, or is larger than any metadata.
    #[must_use]
    pub fn from_json(text: &[u8]) -> Option<Self> {
        let tree = Tree::parse(text, LIMITS).ok()?;
        let root = tree.root();
        let mut meta = Self::default();
        meta.take(&mut root.members());
        (root.kind() == Kind::Object).then_some(meta)
    }

    /// Writes the metadata, its members in the order of their names.
    #[must_use]
    pub fn to_json(&self) -> String {
        object(&self.members())
    }

    /// Writes the metadata in at most `max_bytes` of JSON (at least 18): the longest members are left out first,
    /// and `shortened` says so. The body of the capture still has them.
    #[must_use]
    pub fn to_short_json(&self, max_bytes: usize) -> String {
        let mut members = self.members();
        let mut json = object(&members);
        while json.len() > max_bytes {
            let others = members.iter().enumerate().filter(|(_, (name, _))| *name != SHORTENED);
            let longest = others.max_by_key(|(_, (_, json))| json.len()).map(|(at, _)| at);
            let Some(longest) = longest else { break };
            members.remove(longest);
            put(&mut members, SHORTENED, "true".to_owned());
            json = object(&members);
        }
        json
    }

    /// Adds a member that is a text, in place of an earlier one of that name.
    pub fn set_text(&mut self, name: &str, text: &str) {
        let json = to_json(&text.to_owned());
        if let Ok(tree) = Tree::parse(json.as_bytes(), LIMITS) {
            self.take(&mut std::iter::once((name.into(), tree.root())));
        }
    }

    /// True if nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Version of the app as reports call it: its name, else its code.
    #[must_use]
    pub fn version(&self) -> Option<String> {
        let name = self.version_name.clone().filter(|name| !name.is_empty());
        name.or_else(|| self.version_code.map(|code| code.to_string()))
    }
}

/// Reads a field. A value of another kind is as good as none.
fn read<T: Json + Default>(field: &mut Option<T>, value: Value<'_>) {
    *field = record::read(value).unwrap_or_default();
}

/// Replaces a field where there is a newer value.
fn replace<T>(field: &mut Option<T>, newer: Option<T>) {
    if newer.is_some() {
        *field = newer;
    }
}

/// Puts a field as [`put`] does, if there is one.
fn put_field<'a, T: Json>(members: &mut Vec<(&'a str, String)>, name: &'a str, field: &Option<T>) {
    if let Some(value) = field {
        put(members, name, to_json(value));
    }
}

/// Puts a member at its place in the order of names, in place of another one of that name.
fn put<'a>(members: &mut Vec<(&'a str, String)>, name: &'a str, json: String) {
    match members.binary_search_by(|(other, _)| (*other).cmp(name)) {
        Ok(at) => {
            if let Some((_, old)) = members.get_mut(at) {
                *old = json;
            }
        }
        Err(at) => members.insert(at, (name, json)),
    }
}

fn object(members: &[(&str, String)]) -> String {
    let mut out = Writer::new();
    out.begin_object();
    for (name, json) in members {
        out.key(name).raw(json);
    }
    out.end_object();
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_as_it_was_written_with_members_of_others() {
        let text = r#"{"also":["x"],"app":"a","custom":{"n":[1, 2]},"overhead_percent":0.25,"recovered":true,"span_ns":[1,2],"version_code":7}"#;
        let meta = CaptureMeta::from_json(text.as_bytes()).unwrap();
        assert_eq!(meta.span_ns, Some((1, 2)));
        assert_eq!(meta.other["custom"], r#"{"n":[1, 2]}"#);
        assert_eq!(meta.version().as_deref(), Some("7"));
        assert_eq!(meta.to_json(), text);
    }

    #[test]
    fn other_texts_are_no_metadata_and_fields_of_another_kind_are_absent() {
        for wrong in ["", "[]", "1", "{\"app\":", "{} {}"] {
            assert_eq!(CaptureMeta::from_json(wrong.as_bytes()), None, "{wrong}");
        }
        let odd = br#"{"app": 7, "pid": "x", "span_ns": [1], "seq": null, "api": 34}"#;
        let meta = CaptureMeta::from_json(odd).unwrap();
        assert_eq!((meta.app, meta.pid, meta.span_ns, meta.api), (None, None, None, Some(34)));
        let deep = format!("{{\"x\": {}{}}}", "[".repeat(100), "]".repeat(100));
        assert_eq!(CaptureMeta::from_json(deep.as_bytes()), None, "bounded");
    }

    #[test]
    fn newer_members_replace_earlier_ones() {
        let read = |text: &str| CaptureMeta::from_json(text.as_bytes()).unwrap();
        let mut meta = read(r#"{"app": "a", "window": "w", "x": 1, "y": 2}"#);
        meta.merge(read(r#"{"app": "b", "x": 3, "window": null}"#));
        assert_eq!(meta.to_json(), r#"{"app":"b","window":"w","x":3,"y":2}"#);
    }

    #[test]
    fn the_longest_members_are_left_out_first() {
        let meta = CaptureMeta {
            app: Some("com.example".to_owned()),
            why: Some("w".repeat(500)),
            other: [("more".to_owned(), format!("\"{}\"", "m".repeat(400)))].into(),
            ..CaptureMeta::default()
        };
        assert!(!meta.to_short_json(1_000).contains("shortened"));
        assert!(meta.to_short_json(600).starts_with(r#"{"app":"com.example","more":"mm"#));
        assert_eq!(meta.to_short_json(100), r#"{"app":"com.example","shortened":true}"#);
        assert_eq!(meta.to_short_json(0), r#"{"shortened":true}"#);
    }
}
