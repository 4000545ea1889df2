//! JSON of any bytes: the same texts as serde_json takes are taken, with the same values; errors lie
//! within the text, and every value knows its path.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracetee_protocol::json::{Kind, Limits, Tree, Value, Writer};

fuzz_target!(|bytes: &[u8]| {
    let oracle = serde_json::from_slice::<serde_json::Value>(bytes);
    match Tree::parse(bytes, Limits::DEFAULT) {
        Ok(tree) => {
            let mut out = Writer::new();
            copy(tree.root(), &mut out);
            let text = out.finish();
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
            match oracle {
                Ok(oracle) => compare(tree.root(), &oracle),
                // Numbers beyond all floats are refused only when they are requested.
                Err(error) => assert!(error.to_string().contains("out of range"), "{error}"),
            }
        }
        Err(error) => {
            // serde_json ends at another depth.
            assert!(oracle.is_err() || error.reason().contains("at most"), "{error}");
            assert!(error.position().is_none_or(|position| position.offset <= bytes.len()));
        }
    }
});

fn compare(value: Value<'_>, oracle: &serde_json::Value) {
    if let Some(text) = value.text() {
        assert_eq!(Some(&*text), oracle.as_str());
    }
    if value.kind() == Kind::Number {
        assert_eq!(value.u64(), oracle.as_u64());
        let (read, expected) = (value.decimal().unwrap().to_f64(), oracle.as_f64().unwrap());
        // Six decimal places; numbers out of range are the nearest that there is.
        let expected = expected.clamp(-9_223_372_036_854.775, 9_223_372_036_854.775);
        assert!((read - expected).abs() <= expected.abs() * 1e-14 + 6e-7, "{read} {expected}");
    }
    if let Some(items) = oracle.as_array() {
        assert_eq!(value.items().count(), items.len());
        value.items().zip(items).for_each(|(value, oracle)| compare(value, oracle));
    }
    for (key, member) in value.members() {
        let last = value.get(&key).unwrap();
        compare(last, &oracle[&*key]);
        assert!(member.path().ends_with(&*key));
    }
}

/// Writes what was read; numbers as decimals, as not all of them are floats.
fn copy(value: Value<'_>, out: &mut Writer) {
    match value.kind() {
        Kind::Array => {
            out.begin_array();
            value.items().for_each(|item| copy(item, out));
            out.end_array();
        }
        Kind::Object => {
            out.begin_object();
            for (key, member) in value.members() {
                out.key(&key);
                copy(member, out);
            }
            out.end_object();
        }
        Kind::Text => drop(out.text(&value.text().unwrap())),
        Kind::Number => drop(out.decimal(value.decimal().unwrap())),
        _ => drop(out.raw(value.raw())),
    }
}
