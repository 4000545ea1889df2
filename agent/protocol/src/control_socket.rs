//! The agent's control socket: an abstract Unix socket per process, to which `tracetee doctor` and `tracetee atrace`
//! connect.
//!
//! A request is one line. The answer ends with the connection. It is the health report, or a line with a [`Reply`], followed
//! by the text of a capture. The program requests the health report first, and accepts only an agent with its own protocol
//! version: see [`OtherVersion`].

use crate::PROTOCOL_VERSION;
use crate::choice;
use crate::health::HealthReport;
use crate::json::{self, Limits, Tree, Value, quoted};
use crate::record;
use crate::record::{Json, to_json};
use std::fmt;

/// Start of the socket's abstract name; the process id follows.
pub const NAME_PREFIX: &str = "tracetee-";
/// Request for the health report.
pub const HEALTH: &str = "health";
/// Start of a request for a capture on the device; the JSON of an [`AtraceRequest`] follows.
pub const ATRACE: &str = "atrace ";

/// Abstract name of the control socket of a process.
#[must_use]
pub fn name(pid: u32) -> String {
    format!("{NAME_PREFIX}{pid}")
}

choice! {
    /// A capture on the device.
    pub enum AtraceRequest {
        /// Begins a capture.
        Start(CaptureOptions) = "start",
        /// Asks for the text so far; the capture continues with an empty buffer.
        Dump = "dump",
        /// Asks for the text, and ends the capture.
        Stop = "stop",
    }
}

record! {
    /// Options of a capture on the device.
    #[derive(Eq)]
    pub struct CaptureOptions {
        /// Categories.
        pub tags: Vec<String> = Vec::new(); count(1..=256),
        /// Memory of the recorder.
        pub buffer_kb: u64 = 0,
        /// Keeps the latest records when the buffer is full; otherwise the earliest.
        pub circular: bool = false,
        /// Time after which the capture ends automatically, because its client may be gone; `None`: never.
        pub duration_ms: Option<u64> = None,
    }
}

impl AtraceRequest {
    /// Writes the request.
    #[must_use]
    pub fn to_json(&self) -> String {
        to_json(self)
    }

    /// Reads a request. Unlike a report, it must be understood completely.
    ///
    /// # Errors
    /// [`json::Error`] for a field that is unknown, of another kind or outside its limits.
    pub fn from_json(text: &[u8]) -> Result<Self, json::Error> {
        let tree = Tree::parse(text, Limits::DEFAULT)?;
        let request = record::read(tree.root())?;
        if let Some(unknown) = tree.unknown().pop() {
            return Err(json::Error::new(unknown, "unknown field"));
        }
        record::check(&request)?;
        Ok(request)
    }
}

record! {
    /// Answer in one line: to a capture request, and to any request that is refused.
    #[derive(Eq)]
    pub struct Reply {
        /// [`PROTOCOL_VERSION`] of the agent.
        pub protocol: u32 = PROTOCOL_VERSION,
        /// Version of the agent.
        pub version: String = env!("CARGO_PKG_VERSION").to_owned(),
        /// Reason why the agent refuses; `None` if it accepts.
        pub error: Option<String> = None; omit(Option::is_none),
    }
}

record::writes!(Reply);

impl Reply {
    /// Refuses for a reason.
    #[must_use]
    pub fn refuse(why: &str) -> Self {
        Self { error: Some(why.to_owned()), ..Self::default() }
    }

    /// Reads the first line of an answer.
    ///
    /// # Errors
    /// As [`read_health`].
    pub fn check(line: &[u8]) -> Result<(), NoAnswer> {
        read::<Self>(line).map(|_| ())
    }
}

/// Reads a health report that a process sent.
///
/// # Errors
/// [`NoAnswer`], if the agent is of another version or refused.
pub fn read_health(answer: &[u8]) -> Result<HealthReport, NoAnswer> {
    read(answer)
}

/// Reads an answer, its protocol version first: a field of another version may have another meaning.
fn read<T: Json + Default>(answer: &[u8]) -> Result<T, NoAnswer> {
    let other = |other| NoAnswer::OtherVersion(other);
    let tree = Tree::parse(answer, Limits::DEFAULT).map_err(|_| other(OtherVersion::default()))?;
    let root = tree.root();
    let protocol = root.get("protocol").and_then(Value::u64);
    if protocol != Some(u64::from(PROTOCOL_VERSION)) {
        let version = root.get("health").and_then(|health| health.get("version"));
        let version = root.get("version").or(version).and_then(Value::text);
        let version = version.map(|version| version.chars().take(MAX_VERSION_CHARS).collect());
        return Err(other(OtherVersion { protocol, version }));
    }
    if let Some(why) = root.get("error").and_then(Value::text) {
        return Err(NoAnswer::Refused(why.into_owned()));
    }
    record::read(root).map_err(NoAnswer::Malformed)
}

/// Characters of the version that another agent says it has.
const MAX_VERSION_CHARS: usize = 64;

/// Reason why an answer has no content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The agent is of another version.
    #[error("{0}")]
    OtherVersion(OtherVersion),
    /// The agent refused, for this reason.
    #[error("{0}")]
    Refused(String),
    /// The agent has this version, but its answer does not match the version's format.
    #[error("malformed answer: {0}")]
    Malformed(json::Error),
}

/// An agent whose protocol version is not [`PROTOCOL_VERSION`]: it is reported, but not interpreted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherVersion {
    /// Protocol version of the agent; `None` for an answer that has none.
    pub protocol: Option<u64>,
    /// Version of the agent, if the answer has one.
    pub version: Option<String>,
}

impl fmt::Display for OtherVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("agent of another version: ")?;
        match &self.version {
            Some(version) => write!(f, "{}, ", quoted(version))?,
            None => f.write_str("unknown, ")?,
        }
        match self.protocol {
            Some(protocol) => write!(f, "protocol version {protocol}")?,
            None => f.write_str("no protocol version")?,
        }
        write!(f, "; this program reads version {PROTOCOL_VERSION}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let options = CaptureOptions {
            tags: vec!["view".to_owned(), "a\"b".to_owned()],
            buffer_kb: 2048,
            circular: true,
            duration_ms: Some(5_000),
        };
        let forever = CaptureOptions { duration_ms: None, ..options.clone() };
        for request in [
            AtraceRequest::Start(options),
            AtraceRequest::Start(forever),
            AtraceRequest::Dump,
            AtraceRequest::Stop,
        ] {
            assert_eq!(AtraceRequest::from_json(request.to_json().as_bytes()), Ok(request));
        }
        for (wrong, why) in [
            ("\"go\"", "must be one of start, dump, stop"),
            ("{\"start\": {}, \"stop\": {}}", "must be"),
            ("{\"start\": {}}", "start.tags: has 0 entries"),
            ("{\"start\": {\"tags\": [\"a\"], \"buffer_kb\": -1}}", "start.buffer_kb: must"),
            ("{\"start\": {\"tags\": [1]}}", "start.tags[0]: must"),
            ("{\"start\": {\"tags\": [\"a\"], \"x\": 1}}", "start.x: unknown field"),
            ("x", "expected a value"),
        ] {
            let error = AtraceRequest::from_json(wrong.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn an_agent_of_another_version_is_named_and_not_interpreted() {
        let other = |answer: &str| read_health(answer.as_bytes()).unwrap_err().to_string();
        let refusal = |what: &str| {
            format!(
                "agent of another version: {what}; this program reads version {PROTOCOL_VERSION}"
            )
        };
        assert_eq!(
            other(r#"{"health": {"version": "9.0", "slots": 3}, "protocol": 7}"#),
            refusal("\"9.0\", protocol version 7")
        );
        assert_eq!(
            other(r#"{"version": "9.0", "error": "no"}"#),
            refusal("\"9.0\", no protocol version")
        );
        for nothing in ["", "null", "[]", "{}", "{\"protocol\": \"1\"}", "{\"protocol\": 1"] {
            assert_eq!(other(nothing), refusal("unknown, no protocol version"), "{nothing}");
        }
        let long = format!(r#"{{"version": "{}"}}"#, "\\u001b9".repeat(1000));
        assert!(!other(&long).contains('\u{1b}') && other(&long).len() < 500, "{}", other(&long));
    }

    #[test]
    fn a_reply_refuses_or_does_not() {
        let reply = Reply::default();
        assert_eq!(Reply::check(reply.to_json().as_bytes()), Ok(()));
        let refused = Reply::refuse("the user does not consent").to_json();
        let error = Reply::check(refused.as_bytes()).unwrap_err();
        assert_eq!(error, NoAnswer::Refused("the user does not consent".to_owned()));
    }
}
