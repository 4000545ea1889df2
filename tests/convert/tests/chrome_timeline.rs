//! Chromium's own timeline: a program that is not ours records itself, with arguments, flows at instants and slices, processor
//! times and asynchronous slices. Perfetto's trace_processor reads the recording and what it is converted to.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};
use tracetee_tests::tools::chromium;
use tracetee_tests_convert::rows::converted;
use tracetee_tests_convert::{Engine, Rows};

/// Work for a renderer: a layout for each frame, timers, marks.
const PAGE: &str = "<body><div id=box></div><script>
    for (let i = 0; i < 100; i++) box.append(Object.assign(document.createElement('div'), {textContent: i}));
    let n = 0;
    function frame() {
        box.style.width = n % 500 + 'px';
        box.offsetWidth;
        setTimeout(() => performance.mark('mark ' + n), 1);
        if (n++ < 30) requestAnimationFrame(frame);
    }
    frame();
    </script></body>";

/// The readings.
const QUERIES: [(&str, &str); 5] = [
    // An instant at the end of a slice may be in it or after it.
    (
        "slices",
        "select p.pid, t.tid, (s.ts + 500) / 1000, (s.dur + 500) / 1000, s.name, s.category, iif(s.dur > 0, s.depth, -1) depth, \
         s.thread_ts / 1000, iif(s.dur > 0, s.thread_dur / 1000, -1) took from slice s join thread_track k on s.track_id = k.id join thread t using (utid) \
         left join process p using (upid) order by 1, 2, 3, 7, 4, 5, 6, 8, 9",
    ),
    (
        "asynchronous slices",
        "select (ts + 500) / 1000, iif(dur < 0, -1, (dur + 500) / 1000), name, category from slice \
         where track_id not in (select id from thread_track) order by 1, 2, 3, 4",
    ),
    // The engine's reader of JSON gives some fractions another last digit, and makes fractions of large integers.
    (
        "arguments",
        "select (s.ts + 500) / 1000, s.name, substr(a.flat_key, instr(a.flat_key, '.') + 1) key, \
         coalesce(a.string_value, printf('%.6g', coalesce(a.int_value, a.real_value))) value \
         from slice s join args a using (arg_set_id) where a.flat_key glob 'debug.*' or a.flat_key glob 'args.*' \
         order by 1, 2, 3, 4",
    ),
    (
        "flows",
        "select ta.tid, (a.ts + 500) / 1000, a.dur, a.name, tb.tid other, (b.ts + 500) / 1000, b.dur other_dur, b.name other_name \
         from flow f join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id \
         join thread_track ka on a.track_id = ka.id join thread ta on ta.utid = ka.utid \
         join thread_track kb on b.track_id = kb.id join thread tb on tb.utid = kb.utid order by 1, 2, 3, 4, 5, 6, 7, 8",
    ),
    (
        "threads",
        "select t.tid, p.pid, t.name, p.name process from thread t join process p using (upid) where t.tid > 0 order by 1, 2, 3, 4",
    ),
];

/// The engine's counters of Chromium's malformed events. It leaves out slices that overlap others, and after an end without a begin it
/// nests slices in another way than we do, so that a few rows of a thread may differ.
const LEFT_OUT: [&str; 3] =
    ["misplaced_end_event", "slice_drop_overlapping_complete_event", "flow_no_enclosing_slice"];

/// Records a start of Chromium.
fn record(chromium: &Path, directory: &Path) {
    std::fs::write(directory.join("page.html"), PAGE).unwrap();
    let status = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=1000"])
        .arg(format!("--user-data-dir={}", directory.join("profile").display()))
        .args(["--trace-startup=blink,cc,v8,mojom,toplevel,toplevel.flow,wakeup.flow,startup,navigation,devtools.timeline"])
        .args(["--trace-startup-format=json", "--trace-startup-duration=2"])
        .arg(format!("--trace-startup-file={}", directory.join("chrome.json").display()))
        .arg(format!("file://{}", directory.join("page.html").display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn a_recording_of_chromium_has_the_same_rows_in_json_and_protobuf() {
    let (Some(chromium), Some(engine)) = (chromium(), Engine::new()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    record(&chromium, path);
    let outputs = ["out.json", "out.pftrace"];
    for output in outputs {
        let said = converted(path, &["chrome.json"], output);
        // Nothing but metadata is left out.
        let lost: Vec<_> = said.lines().filter(|line| line.contains("dropped")).collect();
        assert!(lost.iter().all(|line| line.contains("kernel events")), "{said}");
    }
    let files: Vec<_> = ["chrome.json"].into_iter().chain(outputs).collect();
    let queries = QUERIES.map(|(_, query)| query);
    let read = engine.rows_with(path, &files, &queries, &LEFT_OUT);
    let [original, converted @ ..] = &read[..] else { panic!("{files:?}") };
    for (tables, file) in converted.iter().zip(outputs) {
        for (((title, _), found), expected) in QUERIES.iter().zip(tables).zip(original) {
            let least = if *title == "threads" { 20 } else { 300 };
            assert!(expected.len() > least, "{title}: {}", expected.len());
            let [missing, added] = [only(expected, found), only(found, expected)];
            let most = expected.len() / 500;
            assert!(
                missing.len() <= most && added.len() <= most,
                "{title} of {file}: of {} rows {} are missing, {:?} …, and {} are not in the original, {:?} …",
                expected.len(),
                missing.len(),
                missing.first(),
                added.len(),
                added.first()
            );
        }
    }
}

/// Rows that only the first table has, as often as it has them more than the other.
fn only<'a>(rows: &'a Rows, others: &'a Rows) -> Vec<&'a String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for row in others {
        *counts.entry(row).or_default() += 1;
    }
    let is_only = |row: &&String| match counts.get_mut(row.as_str()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    rows.iter().filter(is_only).collect()
}
