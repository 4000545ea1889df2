//! Documents that are taken, and what is said about those that are not.

use super::*;
use crate::record::schema_tests::document;

fn wrong(text: &str) -> String {
    parse(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn an_empty_document_is_the_default_and_needs_no_more_than_its_number() {
    let parsed = parse(br#"{"schema": 1, "seq": 3}"#).unwrap();
    assert_eq!(parsed.document, Document { schema: 1, seq: 3, ..Document::default() });
    assert!(parsed.warnings.is_empty());
}

#[test]
fn unknown_fields_are_named_and_ignored() {
    let text = r#"{"schema": 1, "seq": 3, "colour": 1, "windows": [{"id": "a", "shape": 2,
        "opens": {"triggers": {"any": [{"jank": {"size": 3}}], "sound": 4}}}]}"#;
    let warnings = parse(text.as_bytes()).unwrap().warnings;
    let names = [
        "colour",
        "windows[0].shape",
        "windows[0].opens.triggers.any[0].jank.size",
        "windows[0].opens.triggers.sound",
    ];
    assert_eq!(warnings, names.map(|name| format!("{name}: unknown, ignored")));
}

#[test]
fn an_error_names_the_path_of_the_wrong_value() {
    let in_window = |fields: &str| {
        format!(r#"{{"schema": 1, "seq": 1, "windows": [{{"id": "a", {fields}}}]}}"#)
    };
    for (text, expected) in [
        ("[]".to_owned(), "document: must be an object, not an array"),
        (r#"{"schema": 1"#.to_owned(), "schema: the text ends too early (line 1, column 13)"),
        ("{} x".to_owned(), "document: JSON ends here"),
        (r#"{"schema": 1}"#.to_owned(), "seq: is missing"),
        (r#"{"seq": 1}"#.to_owned(), "schema: is missing"),
        (r#"{"schema": 1, "seq": 4, "": 1, "seq": 4}"#.to_owned(), "seq: is there twice"),
        (
            r#"{"schema": 1, "seq": 4, "kill": {"on": true, "x": 1, "on": true}}"#.to_owned(),
            "kill.on: is there twice (line 1, column 60)",
        ),
        (r#"{"schema": 2, "seq": 1}"#.to_owned(), "schema: 2 is not 1"),
        (r#"{"schema": 1, "seq": -1}"#.to_owned(), "seq: must be a whole number from 0 to 18"),
        (
            r#"{"schema": 1, "seq": 1, "kill": {"on": 1}}"#.to_owned(),
            "kill.on: must be true or false, not 1",
        ),
        (
            r#"{"schema": 1, "seq": 1, "app_packages": ["com.example", "com..x"]}"#.to_owned(),
            "app_packages: \"com..x\" is not names joined by dots, as com.example, of at most 100",
        ),
        (
            format!(r#"{{"schema": 1, "seq": 1, "app_packages": ["{}"]}}"#, "x".repeat(101)),
            "app_packages: \"xxx",
        ),
        (
            format!(r#"{{"schema": 1, "seq": 1, "app_packages": ["a"{}]}}"#, ", \"a\"".repeat(32)),
            "app_packages: has 33 entries, must have from 0 to 32",
        ),
        (
            in_window(r#""tags": ["view", "veiw"]"#),
            "windows[0].tags: unknown category \"veiw\"; known are all, ",
        ),
        (in_window(r#""max_s": 0"#), "windows[0].max_s: must be more than 0"),
        (in_window(r#""max_s": 3601"#), "windows[0].max_s: 3601 is not from 0 to 3600"),
        (in_window(r#""max_s": "x""#), "windows[0].max_s: must be a number, not \"x\""),
        (
            in_window(r#""opens": "now""#),
            "windows[0].opens: must be one of manual, app_start, schedule, section, triggers, not \"now\"",
        ),
        (
            in_window(r#""opens": {"schedule": {"every_s": 5}}"#),
            "windows[0].opens.schedule.every_s: 5 is not from 60",
        ),
        (in_window(r#""opens": {"section": {}}"#), "windows[0].opens.section.from: is missing"),
        (
            in_window(r#""opens": {"section": {"from": "a", "until": ""}}"#),
            "windows[0].opens.section.until: must have",
        ),
        (
            in_window(r#""opens": {"triggers": {"any": []}}"#),
            "windows[0].opens.triggers.any: has 0 entries, must have from 1 to 16",
        ),
        (
            in_window(r#""opens": {"triggers": {"any": [{"blocked": {"over_s": 0}}]}}"#),
            "windows[0].opens.triggers.any[0].blocked.over_s: 0 is not from 0.1",
        ),
        (
            in_window(r#""opens": {"triggers": {"any": [{"custom": {}}]}}"#),
            "windows[0].opens.triggers.any[0].custom.name: is missing",
        ),
        (in_window(r#""id": "a""#), "windows[0].id: is there twice"),
        (in_window(r#""recorder": {"mode": "systrace"}"#), "windows[0].recorder: mode systrace"),
        (in_window(r#""recorder": {"capacity_kb": 255}"#), "windows[0].recorder.capacity_kb: 255"),
        (
            in_window(r#""min_slice_us": {"main": 10000001}"#),
            "windows[0].min_slice_us.main: 10000001 is not from 0 to 10000000",
        ),
        (
            r#"{"schema": 1, "seq": 1, "windows": [{"id": "../x"}]}"#.to_owned(),
            "windows[0].id: \"../x\" is not",
        ),
        (
            r#"{"schema": 1, "seq": 1, "windows": [{"id": "a"}, {"id": "a"}]}"#.to_owned(),
            "windows: \"a\" is the id of two windows",
        ),
        (
            in_window(r#""opens": "manual""#)
                .replace("}]}", r#"}], "on_demand": [{"window": {"id": "a"}}]}"#),
            "windows: \"a\" is the id of two windows",
        ),
        (
            r#"{"schema": 1, "seq": 1, "on_demand": [{}]}"#.to_owned(),
            "on_demand[0].window: is missing",
        ),
        (
            r#"{"schema": 1, "seq": 1, "sampling": {"percent": 101}}"#.to_owned(),
            "sampling.percent: 101 is not from 0 to 100",
        ),
        (
            r#"{"schema": 1, "seq": 1, "redaction": {"rules": [{}]}}"#.to_owned(),
            "redaction.rules[0].pattern: is missing",
        ),
    ] {
        let said = wrong(&text);
        assert!(said.starts_with(expected), "{text}\n{said}\n{expected}");
    }
}

#[test]
fn a_document_that_is_too_long_is_refused_unread() {
    let said = wrong(&" ".repeat(MAX_DOCUMENT_BYTES + 1));
    assert_eq!(said, "document: has 262145 bytes, at most 262144");
}

#[test]
fn the_schema_that_is_checked_in_is_that_of_the_tables() {
    // Of the package's directory, where cargo runs its tests.
    let path = "../schema/remote-config.schema.json";
    let text = document::<Document>("tracetee remote configuration");
    if std::env::var_os("TRACETEE_BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let checked_in = std::fs::read_to_string(path).unwrap_or_default();
    assert!(text == checked_in, "{path} is stale: run the test with TRACETEE_BLESS=1");
}

#[test]
fn profiles_are_checked_before_they_are_served_and_passed_over_by_the_agent() {
    let in_document = |profiling: &str, more: &str| {
        format!(
            r#"{{"schema": 1, "seq": 1, "windows": [{{"id": "jank"}}], "profiling": {profiling}{more}}}"#
        )
    };
    let good = r#"{"requests": [{"windows": ["jank"], "kind": "stack_sampling", "duration_s": 5, "x": 1}],
        "triggers": [{"on": "anr"}], "budget": {"per_week": 10}}"#;
    let served = parse_to_serve(in_document(good, "").as_bytes()).unwrap();
    assert_eq!(served.warnings, ["profiling.requests[0].x: unknown, ignored"]);
    let taken = parse(in_document(good, "").as_bytes()).unwrap();
    assert_eq!((taken.document, taken.warnings), (served.document, Vec::new()));
    let request = |fields: &str| format!(r#"{{"requests": [{{"windows": ["jank"], {fields}}}]}}"#);
    for (profiling, expected) in [
        ("7".to_owned(), "profiling: must be an object, not 7"),
        (request(r#""kind": "trace""#), "profiling.requests[0].kind: must be one of stack_samp"),
        (request(r#""duration_s": 5"#), "profiling.requests[0].kind: is missing"),
        (
            request(r#""kind": "system_trace", "duration_s": 601"#),
            "profiling.requests[0].duration_s: 601 is not from 1 to 600",
        ),
        (
            r#"{"requests": [{"windows": ["none"], "kind": "system_trace"}]}"#.to_owned(),
            "profiling.requests[0].windows: there is no window \"none\"",
        ),
        (r#"{"triggers": [{"on": "jank"}]}"#.to_owned(), "profiling.triggers[0].on: must be one"),
    ] {
        let document = in_document(&profiling, "");
        let said = parse_to_serve(document.as_bytes()).unwrap_err().to_string();
        assert!(said.starts_with(expected), "{said}");
        // A device ignores what it cannot use.
        assert!(parse(document.as_bytes()).is_ok(), "{document}");
    }
    let strict = in_document(good, r#", "redaction": {"strict": true}"#);
    let said = parse_to_serve(strict.as_bytes()).unwrap_err().to_string();
    assert!(said.starts_with("profiling: must be empty: redaction.strict"), "{said}");
    let dumps = in_document("{}", r#", "redaction": {"strict": true}, "deaths": {"dumps": true}"#);
    let said = parse_to_serve(dumps.as_bytes()).unwrap_err().to_string();
    assert!(said.starts_with("deaths.dumps: must be false: redaction.strict"), "{said}");
}
