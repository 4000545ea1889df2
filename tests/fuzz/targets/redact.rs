//! A redaction rule and a name of any bytes: the rule is refused, or the name comes out in time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracetee::Config;

fuzz_target!(|input: (&str, &str)| {
    let (pattern, name) = input;
    let rule = serde_json::json!({ "text": { "redaction": [{ "pattern": pattern }] } });
    if let Ok(config) = Config::from_json(&rule.to_string()) {
        let _ = tracetee_text::redacted(&config.text, &name[..name.floor_char_boundary(1024)]);
    }
});
