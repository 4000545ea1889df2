//! Names without what differs from one time to the next: ids, addresses, numbers.

use regex::Regex;
use std::sync::LazyLock;

/// A UUID, an address, an object's hash, a long hexadecimal id, a standalone number.
#[allow(clippy::unwrap_used, reason = "a constant expression; every test runs it")]
static CHANGING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x)
        \b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b
        | \b0x[0-9a-fA-F]+
        | @[0-9a-fA-F]{4,}\b
        | \b[0-9]+(?:[.,:][0-9]+)*(?:ns|us|ms|s|%)?\b
        | \b(?:[a-fA-F]*[0-9]){3}[0-9a-fA-F]{5,}\b",
    )
    .unwrap()
});

/// Returns the name without parts that change from time to time: `Choreographer#doFrame 4711` becomes
/// `Choreographer#doFrame`, `obj@1a2b3c 12` becomes `obj@#`. Digits inside words stay (`Http2`, `i18n`).
#[must_use]
pub fn normalize(name: &str) -> String {
    let name = CHANGING.replace_all(name.trim(), |found: &regex::Captures<'_>| {
        if found.get(0).is_some_and(|text| text.as_str().starts_with('@')) { "@#" } else { "#" }
    });
    let mut name: &str = name.trim();
    while let Some(shorter) = name.strip_suffix('#') {
        // `#` alone, or a name that ends in one by itself, stays.
        match shorter.strip_suffix([' ', ':', '-', '=']) {
            Some(shorter) if !shorter.trim().is_empty() => name = shorter.trim_end(),
            _ => break,
        }
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::normalize;

    #[test]
    fn numbers_go_and_names_stay() {
        for (name, expected) in [
            ("Choreographer#doFrame 123456", "Choreographer#doFrame"),
            ("DrawFrames 12", "DrawFrames"),
            (
                "Lock contention on a monitor lock (owner tid: 25653)",
                "Lock contention on a monitor lock (owner tid: #)",
            ),
            ("RV OnBindView type=0x7f0a", "RV OnBindView type"),
            ("com.example.Feed@1a2b3c", "com.example.Feed@#"),
            ("load 6ba7b810-9dad-11d1-80b4-00c04fd430c8 x", "load # x"),
            ("Http2 i18n utf8", "Http2 i18n utf8"),
            ("took 12.5ms of 3", "took # of"),
            ("Foo.java:123", "Foo.java"),
            ("a(Foo.java:123) b", "a(Foo.java:#) b"),
            ("blob 9f86d081884c7d65 x", "blob # x"),
            ("deadbeef", "deadbeef"),
            ("42", "#"),
            ("", ""),
            ("frame-12", "frame"),
            ("Binder:123_4", "Binder:123_4"),
        ] {
            assert_eq!(normalize(name), expected, "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_normal_name_is_normal(name in ".{0,60}") {
            let once = normalize(&name);
            proptest::prop_assert_eq!(normalize(&once), once);
        }
    }
}
