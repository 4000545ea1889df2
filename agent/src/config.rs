//! The configuration of a capture as this agent can use it: the protocol crate reads a document and
//! checks its limits; whether the expressions of its redaction rules compile is checked here.

use crate::error::Error;
use tracetee_protocol::capture_config::Config;

/// Reads and checks a JSON document.
pub(crate) fn read(text: &str) -> Result<Config, Error> {
    let config = Config::from_json(text)?;
    tracetee_text::rules(&config.text)?;
    Ok(config)
}

/// Checks a configuration that was made in Rust.
pub(crate) fn check(config: &Config) -> Result<(), Error> {
    config.validate()?;
    tracetee_text::rules(&config.text)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_does_not_compile_is_refused_by_number() {
        let text = r#"{"text":{"redaction":[{"pattern":"a"},{"pattern":"("}]}}"#;
        let message = read(text).unwrap_err().to_string();
        assert!(message.contains("text.redaction: rule 1: pattern \"(\""), "{message}");
        let mut config = Config::from_json(text).unwrap();
        assert!(check(&config).is_err());
        config.text.redaction.pop();
        assert!(check(&config).is_ok());
    }
}
