//! Remote configurations as this agent can use them: the protocol crate reads a document and checks
//! its limits; whether the expressions of its redaction rules compile is checked here.

use tracetee_protocol::json;
use tracetee_protocol::remote_config::{self, Parsed};
use tracetee_text::redact::RuleSet;

/// Reads a document and checks all of it.
pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, json::Error> {
    let parsed = remote_config::parse(bytes)?;
    match RuleSet::new(&parsed.document.redaction.rules, 0) {
        Ok(_) => Ok(parsed),
        Err((index, reason)) => Err(json::Error::new(format!("redaction.rules[{index}]"), reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tracetee_protocol::redaction::Redaction;
    use tracetee_protocol::remote_config::{Budget, Upload};
    use tracetee_recorder::record::Record;
    use tracetee_text::redact::Redactor;
    use tracetee_uploader::{Quota, policy};

    #[test]
    fn an_expression_that_does_not_compile_is_named_by_its_path() {
        let with_pattern = |pattern: &str| {
            let rules = format!(r#"[{{"pattern": "a"}}, {{"pattern": "{pattern}"}}]"#);
            let text = format!(r#"{{"schema": 1, "seq": 1, "redaction": {{"rules": {rules}}}}}"#);
            parse(text.as_bytes())
        };
        let said = with_pattern("(").unwrap_err().to_string();
        assert!(said.starts_with("redaction.rules[1]: pattern \"(\""), "{said}");
        assert!(with_pattern("b").is_ok());
    }

    #[test]
    fn a_document_without_limits_of_its_own_has_those_of_the_uploader() {
        let (budget, upload, quota) = (Budget::default(), Upload::default(), Quota::default());
        assert_eq!(budget.bytes_kept, quota.bytes);
        assert_eq!(budget.captures_kept, quota.captures);
        assert_eq!(budget.bytes_per_capture, quota.capture_bytes);
        assert_eq!(upload.max_age_s, quota.age.as_secs());
        assert_eq!(upload.bytes_per_day, policy::BYTES_PER_DAY);
        assert_eq!(upload.poll_s, policy::POLL.as_secs());
    }

    proptest! {
        #[test]
        fn no_name_brings_the_default_rules_down(name: Vec<u8>) {
            let rules = RuleSet::new(&Redaction::default().rules, 0).unwrap();
            let _ = Redactor::new(rules).apply(0, &Record::Begin { pid: 1, name: &name });
        }
    }
}
