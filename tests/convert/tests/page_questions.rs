//! Fifteen questions about a phone's trace, answered on the timeline's page with real input: `browser/questions.mjs` has them.
//! trace_processor checks each answer. The same script answers them in Perfetto's interface, by hand: that takes minutes.

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use tracetee_tests::tools::{chromium, phone_trace};
use tracetee_tests::{cache, root};
use tracetee_tests_convert::{python, run_tool};

/// Questions that must take no more inputs on our page than in Perfetto's interface.
const AT_LEAST: usize = 12;

/// The trace as systrace writes it: a page with its tables of processes and its events.
fn systrace(to: &Path) -> Option<()> {
    let text = |name: &str| {
        let mut text = String::new();
        let file = std::fs::File::open(phone_trace(name)?).unwrap();
        std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text).unwrap();
        Some(text)
    };
    let section = |text: String| {
        format!("  <script class=\"trace-data\" type=\"application/text\">\n{text}\n  </script>\n")
    };
    let dump = section(text("list-jank.ps.txt.gz")?);
    let events = section(text("list-jank.ftrace.txt.gz")?);
    let page = format!("<!DOCTYPE html>\n<html>\n<body>\n{dump}{events}</body>\n</html>\n");
    std::fs::write(to, page).unwrap();
    Some(())
}

#[test]
fn questions_about_a_phone_s_trace_take_no_more_inputs_than_in_perfetto_s_interface() {
    let (Some(chromium), Some(python)) = (chromium(), python()) else { return };
    let modules = cache("readers").join("node_modules");
    let directory = tempfile::tempdir().unwrap();
    let (trace, page) = (directory.path().join("list.html"), directory.path().join("page.html"));
    if systrace(&trace).is_none() {
        return;
    }
    let _ = run_tool(directory.path(), &["convert", "list.html", "-o", "page.html"]);
    let output = Command::new("node")
        .arg(root().join("tests/convert/browser/beside_perfetto.mjs"))
        .args([&*chromium, &*python, &*page, &*trace, Path::new("-")])
        .env("NODE_PATH", &modules)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let results: Vec<(String, Value, Value)> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(results.len(), 15, "{said}");
    for (name, ours, perfetto) in &results {
        for took in [ours, perfetto] {
            assert_eq!(took["failed"], Value::Null, "{name}: {said}");
        }
    }
    let inputs = |took: &Value| took["inputs"].as_u64().unwrap();
    let no_more = results.iter().filter(|(_, ours, perfetto)| inputs(ours) <= inputs(perfetto));
    assert!(no_more.count() >= AT_LEAST, "{said}");
}
