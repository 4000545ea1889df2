//! Tickets: a device asks the collector for the address to which an object goes, a presigned one of S3.

use crate::json::{self, Kind, Limits, Tree, Writer};
use crate::record;
use crate::words;

words! {
    /// The kind of an object.
    pub enum ObjectKind {
        /// A capture.
        Capture = "captures",
        /// A loss report.
        LossReport = "losses",
    }
}

record! {
    /// A request for a ticket: everything that the address signs.
    #[derive(Eq)]
    pub struct TicketRequest {
        /// Kind of the object.
        pub kind: ObjectKind = ObjectKind::default(),
        /// Id of the object, a UUID.
        pub id: String = String::new(),
        /// Bytes of the object.
        pub bytes: u64 = 0,
        /// SHA-256 of the object in base64.
        pub sha256: String = String::new(),
        /// Value of [`crate::http::META`]; empty for a loss report.
        pub meta: String = String::new(),
    }
}

record::writes!(TicketRequest);

impl TicketRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// [`json::Error`] for a field of another kind.
    pub fn from_json(text: &[u8]) -> Result<Self, json::Error> {
        record::parse(text, Limits::DEFAULT)
    }
}

/// The address to which an object goes, and the headers that go with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ticket {
    /// The presigned address.
    pub url: String,
    /// Names and values, all of them signed.
    pub headers: Vec<(String, String)>,
}

impl Ticket {
    /// Reads a ticket; `None` for what is none. No part of a ticket may be left out: all of it is signed.
    #[must_use]
    pub fn from_json(text: &[u8]) -> Option<Self> {
        let tree = Tree::parse(text, Limits::DEFAULT).ok()?;
        let root = tree.root();
        let url = root.get("url")?.text()?.into_owned();
        let mut headers = Vec::new();
        if let Some(members) = root.get("headers") {
            if members.kind() != Kind::Object {
                return None;
            }
            for (name, value) in members.members() {
                headers.push((name.into_owned(), value.text()?.into_owned()));
            }
        }
        Some(Self { url, headers })
    }

    /// Writes the ticket.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = Writer::new();
        out.begin_object().key("url").text(&self.url).key("headers").begin_object();
        for (name, value) in &self.headers {
            out.key(name).text(value);
        }
        out.end_object().end_object();
        out.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_and_a_ticket_are_read_as_they_were_written() {
        for kind in [ObjectKind::Capture, ObjectKind::LossReport] {
            let request = TicketRequest {
                kind,
                id: "7".to_owned(),
                bytes: 9,
                sha256: "BwcH".to_owned(),
                meta: "e30".to_owned(),
            };
            assert_eq!(TicketRequest::from_json(request.to_json().as_bytes()), Ok(request));
        }
        let ticket = Ticket {
            url: "https://s3.example/k?sig=1".to_owned(),
            headers: vec![("if-none-match".to_owned(), "*".to_owned())],
        };
        assert_eq!(Ticket::from_json(ticket.to_json().as_bytes()), Some(ticket));
    }

    #[test]
    fn a_wrong_field_of_a_request_is_named() {
        let error = |text: &str| TicketRequest::from_json(text.as_bytes()).unwrap_err().to_string();
        assert!(error(r#"{"kind": "x"}"#).starts_with("kind: must be one of captures, losses"));
        assert!(error(r#"{"bytes": "9"}"#).starts_with("bytes: must be a whole number"));
    }

    #[test]
    fn a_ticket_of_which_a_part_cannot_be_read_is_none() {
        for wrong in [
            "{}",
            "\"x\"",
            r#"{"url": "a", "headers": {"x": 5}}"#,
            r#"{"url": "a", "headers": []}"#,
        ] {
            assert_eq!(Ticket::from_json(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
