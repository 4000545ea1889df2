//! The report page takes the filters of `tracetee report` in its address, and has the same answers.

use serde_json::Value;
use tracetee_tests_upload::collector::Collector;

#[test]
fn the_page_has_the_answers_of_the_command() {
    let collector = Collector::start(&[]);
    collector.simulate(60, 30, &[]);
    let command = |options: &[&str]| -> Value {
        let text = collector
            .tracetee(&[&["report", "--store", "store", "--format", "json"], options].concat());
        serde_json::from_str(&text).unwrap()
    };
    let get = |path: &str| collector.send("GET", path, &[], b"");
    let page = |query: &str| -> Value {
        let answer = get(&format!("/report.json?{query}"));
        assert_eq!(answer.status, 200, "{query}");
        serde_json::from_slice(&answer.body).unwrap()
    };
    let all = page("");
    let captures = |report: &Value| {
        let versions = report["apps"][0]["versions"].as_array().unwrap();
        versions.iter().map(|version| version["captures"].as_u64().unwrap()).sum::<u64>()
    };
    for (query, options) in [
        ("", &[][..]),
        ("version=2.1", &["--version", "2.1"]),
        ("since=2026-09-21&screen=Feed", &["--since", "2026-09-21", "--screen", "Feed"]),
        ("app=com.example.shop&version=2.0", &["--app", "com.example.shop", "--version", "2.0"]),
        ("compare=2.0..2.1", &["--compare", "2.0", "2.1"]),
    ] {
        // Twice: the second answer is the remembered one.
        for _ in 0..2 {
            assert_eq!(page(query), command(options), "{query}");
        }
    }
    assert!(captures(&page("version=2.1")) < captures(&all));
    assert_eq!(page("version=2.1")["apps"][0]["versions"].as_array().unwrap().len(), 1);
    assert_eq!(page("since=2099-01-01")["apps"].as_array().unwrap().len(), 0);
    assert!(!page("compare=2.0..2.1")["apps"][0]["comparison"].is_null());
    for (query, status, why) in [
        ("since=soon", 400, "since: not a day"),
        ("compare=2.0", 400, "compare: not two versions"),
        ("version=2.1&compare=2.0..2.1", 400, "version and compare"),
        ("version=9.9", 404, "the store has no captures, version 9.9"),
        ("screen=Fed", 404, "the store has no frames, screen Fed"),
    ] {
        for path in ["/", "/report.json"] {
            let answer = get(&format!("{path}?{query}"));
            let text = String::from_utf8(answer.body).unwrap();
            assert!(
                answer.status == status && text.contains(why),
                "{query}: {} {text}",
                answer.status
            );
        }
    }
}
