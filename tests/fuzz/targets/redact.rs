//! A redaction rule and a name of any bytes: the rule is refused, or the name comes out in time, and as
//! regex-lite replaces in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracetee::Config;

fuzz_target!(|input: (&str, &str)| {
    let (pattern, name) = input;
    let rule = serde_json::json!({ "text": { "redaction": [{ "pattern": pattern }] } });
    let Ok(config) = Config::from_json(&rule.to_string()) else { return };
    let name = &name[..name.floor_char_boundary(300)];
    let Ok(Some(redacted)) = tracetee_text::redacted(&config.text, name) else { return };
    let oracle = regex_lite::Regex::new(pattern).expect("a rule that was accepted");
    let expected = oracle.replace_all(name, regex_lite::NoExpand("<redacted>"));
    assert_eq!(redacted, expected, "{pattern:?} {name:?}");
});
