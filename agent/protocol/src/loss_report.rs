//! The loss report: captures that a device lost, sent by the uploader and stored by the collector.

use crate::PROTOCOL_VERSION;
use crate::capture_meta::CaptureMeta;
use crate::json::{Kind, Limits, Tree, Writer};
use crate::record;
use crate::record::Json as _;
use std::collections::BTreeMap;

/// Losses that a report lists one by one: more than a device that is never heard makes in years.
pub const MAX_LOSSES: usize = 5_000;
/// Reason under which older losses are only counted.
pub const OLDER: &str = "older";

record! {
    /// A capture that was lost.
    #[derive(Eq)]
    pub struct Loss {
        /// Id of the capture.
        pub id: String = String::new(),
        /// Id of the window.
        pub label: String = String::new(),
        /// Reason why it was lost.
        pub reason: String = String::new(),
        /// True if it may have arrived all the same.
        pub unconfirmed: bool = false,
    }
}

/// Captures that a device has lost since its last report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LossReport {
    /// Id of the report, a UUID.
    pub id: String,
    /// Facts about the device.
    pub device: CaptureMeta,
    /// The losses, at most [`MAX_LOSSES`].
    pub lost: Vec<Loss>,
    /// Number of losses by reason, those that are only counted included.
    pub by_reason: BTreeMap<String, u64>,
}

impl LossReport {
    /// Reads a report; `None` if the bytes are not one.
    #[must_use]
    pub fn from_json(text: &[u8]) -> Option<Self> {
        let tree = Tree::parse(text, Limits::DEFAULT).ok()?;
        let root = tree.root();
        let mut report = Self::default();
        let mut others = Vec::new();
        for (key, value) in root.members() {
            match &*key {
                "id" => report.id = record::read(value).unwrap_or_default(),
                // Written for readers of later versions.
                "protocol" => {}
                "lost" => {
                    let losses = value.items().take(MAX_LOSSES);
                    report.lost = losses.filter_map(|loss| record::read(loss).ok()).collect();
                }
                "by_reason" => report.by_reason = record::read(value).unwrap_or_default(),
                _ => others.push((key, value)),
            }
        }
        report.device.take(&mut others.into_iter());
        (root.kind() == Kind::Object).then_some(report)
    }

    /// Writes the report.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = Writer::new();
        out.begin_object();
        out.key("protocol").u64(u64::from(PROTOCOL_VERSION));
        out.key("id").text(&self.id);
        for (name, json) in self.device.members() {
            out.key(name).raw(&json);
        }
        self.by_reason.write(out.key("by_reason"));
        self.lost.write(out.key("lost"));
        out.end_object();
        out.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let loss = Loss {
            id: "7".to_owned(),
            label: "jank".to_owned(),
            reason: "age".to_owned(),
            unconfirmed: true,
        };
        let report = LossReport {
            id: "9".to_owned(),
            device: CaptureMeta { app: Some("a".to_owned()), ..CaptureMeta::default() },
            lost: vec![loss],
            by_reason: [("age".to_owned(), 1), (OLDER.to_owned(), 9)].into(),
        };
        let text = r#"{"protocol":1,"id":"9","app":"a","by_reason":{"age":1,"older":9},"lost":[{"id":"7","label":"jank","reason":"age","unconfirmed":true}]}"#;
        assert_eq!(report.to_json(), text);
        assert_eq!(LossReport::from_json(text.as_bytes()), Some(report));
    }

    #[test]
    fn a_report_is_bounded_and_what_is_none_is_none() {
        let many = format!(r#"{{"lost": [{}{{}}]}}"#, "{},".repeat(MAX_LOSSES + 10));
        assert_eq!(LossReport::from_json(many.as_bytes()).unwrap().lost.len(), MAX_LOSSES);
        for wrong in ["", "[]", "{\"lost\""] {
            assert_eq!(LossReport::from_json(wrong.as_bytes()), None, "{wrong}");
        }
        let odd = LossReport::from_json(br#"{"lost": 5, "by_reason": [1]}"#);
        assert_eq!(odd, Some(LossReport::default()));
    }
}
