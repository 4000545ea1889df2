//! Records with details as a user's program makes them: each comes into the text with its details in the line before it.

#![allow(clippy::unwrap_used, reason = "a test")]

use tracetee::{Action, Replacement, Rule};
use tracetee::{
    Config, Event, Flow, Mode, Precision, RecorderConfig, Section, Summary, TextOptions,
};

/// The lines of a trace without their beginnings: comments of details, and payloads without the process.
fn lines(text: &str) -> Vec<String> {
    let pid = format!("|{}", std::process::id());
    let lines = text.lines().filter_map(|line| {
        let payload = line.split_once(": tracing_mark_write: ").map(|(_, payload)| payload);
        let payload = payload.filter(|payload| !payload.starts_with("trace_event_clock_sync"));
        let payload = payload.map(|payload| payload.replacen(&pid, "", 1));
        payload.or_else(|| line.starts_with("#@ ").then(|| line.to_owned()))
    });
    lines.collect()
}

fn times(text: &str, payload: &str) -> Vec<f64> {
    let time = |line: &str| {
        let (head, found) = line.split_once(": tracing_mark_write: ")?;
        found.contains(payload).then(|| head.rsplit(' ').next()?.parse().ok())?
    };
    text.lines().filter_map(time).collect()
}

fn capture(text: TextOptions, records: impl FnOnce()) -> (String, Summary) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.ftrace");
    let recorder = RecorderConfig { mode: Mode::Ring, ..RecorderConfig::default() };
    tracetee::start(&Config { recorder, text, ..Config::default() }).unwrap();
    records();
    tracetee::stop().unwrap();
    let summary = tracetee::dump(&path).unwrap();
    (std::fs::read_to_string(path).unwrap(), summary)
}

/// One test: there is one capture at a time.
#[test]
fn details_are_in_the_line_before_their_record() {
    all_kinds();
    complete_events();
    rules_hold_for_details();
    short_sections_go_with_their_details();
    details_are_bounded();
}

fn all_kinds() {
    let (text, summary) = capture(TextOptions::default(), || {
        let args = [
            ("url", "/x\n\"y\" </script>".into()),
            ("n", 3.into()),
            ("r", 0.5.into()),
            ("b", true.into()),
        ];
        let flows = [Flow::begin(17)];
        let event = Event::new("fetch").category("net").args(&args).flows(&flows);
        {
            let _section = event.section();
            let _plain = Section::begin("plain");
        }
        Event::new("async").category("io").begin_async(7);
        Event::new("async").args(&[("got", (-1_i64).into())]).end_async(7);
        Event::new("on it").flows(&[Flow::step(17), Flow::end(u64::MAX)]).begin_track("track|t", 8);
        Event::new("").end_track("track|t", 8);
        Event::new("now").args(&[("x", f64::NAN.into())]).instant();
        Event::new("there").track_instant("track");
        Event::new("load").counter(0.336_491);
        tracetee::counters("mem", &[("java", 1.0), ("native", -2.75)]);
        tracetee::counter("whole", 5);
    });
    assert_eq!(
        lines(&text),
        [
            r##"#@ {"args":{"url":"/x\u000a\u0022y\u0022 \u003c/script>","n":3,"r":0.5,"b":true},"cat":"net","flows":["begin:17"]}"##,
            "B|fetch",
            "B|plain",
            "E",
            "E",
            r##"#@ {"cat":"io"}"##,
            "S|async|7",
            r##"#@ {"args":{"got":-1}}"##,
            "F|async|7",
            r##"#@ {"flows":["step:17","end:18446744073709551615"]}"##,
            "G|track t|on it|8",
            "H|track t|8",
            r##"#@ {"args":{"x":"NaN"}}"##,
            "I|now",
            "N|track|there",
            r##"#@ {"value":0.336491}"##,
            "C|load|0",
            r##"#@ {"value":1.0}"##,
            "C|mem.java|1",
            r##"#@ {"value":-2.75}"##,
            "C|mem.native|-2",
            "C|whole|5",
        ],
        "{text}"
    );
    assert_eq!((summary.recorded(), summary.lines, summary.lost()), (14, 14, 0));
}

fn complete_events() {
    let ns = TextOptions { precision: Precision::Ns, ..TextOptions::default() };
    let (text, summary) = capture(ns, || {
        let before = tracetee::now_ns();
        {
            let _outer = Section::begin("outer");
            let begin = tracetee::now_ns();
            drop(Section::begin("inner"));
            Event::new("given").args(&[("n", 1.into())]).complete(begin, tracetee::now_ns());
            // It began before the section that is open, and ends in it.
            Event::new("across").category("c").complete(before, tracetee::now_ns());
            Event::new("reversed").complete(tracetee::now_ns(), begin);
            // A begin that was never set is not a section from boot on.
            Event::new("unset").complete(0, tracetee::now_ns());
            // The end has not come yet.
            Event::new("later").complete(tracetee::now_ns(), u64::MAX);
        }
        let now = tracetee::now_ns();
        Event::new("thread time").thread_time().complete(now, now);
        let section = Event::new("cpu").thread_time().section();
        (0..100_000).for_each(|number| {
            std::hint::black_box(number);
        });
        drop(section);
    });
    let records = lines(&text);
    let index_of = |wanted: &str| {
        records.iter().position(|line| line == wanted).unwrap_or_else(|| panic!("{wanted}: {text}"))
    };
    assert_eq!(records[index_of("B|given") - 1], r##"#@ {"args":{"n":1}}"##);
    assert!(
        index_of("B|outer") < index_of("B|given") && index_of("B|given") < index_of("B|inner"),
        "{text}"
    );
    let across = records.iter().position(|line| line.starts_with("S|across|")).unwrap();
    assert_eq!(records[across - 1], r##"#@ {"cat":"c"}"##);
    assert!(across < index_of("B|outer"));
    // These nest: `inner` in `given`, `reversed` around both, `later` behind them.
    let sections = |letter: &str| records.iter().filter(|line| line.starts_with(letter)).count();
    assert_eq!(
        (sections("B|"), sections("E"), summary.stray_ends, summary.closed_sections),
        (8, 8, 0, 0),
        "{text}"
    );
    assert_eq!((summary.reversed, summary.not_nested), (2, 1));
    assert!(
        text.lines()
            .map(|line| line.split(": tracing").next().unwrap().rsplit(' ').next().unwrap())
            .filter_map(|time| time.parse::<f64>().ok())
            .is_sorted(),
        "{text}"
    );
    let cpu: Vec<u64> = records
        .iter()
        .filter_map(|line| line.strip_prefix(r##"#@ {"cpu_ns":"##)?.strip_suffix('}')?.parse().ok())
        .collect();
    assert!(cpu.len() == 3 && cpu[1] < cpu[2], "{text}");
    assert_eq!(times(&text, "|later").len(), 1);
}

fn rule(pattern: &str, action: Action) -> Rule {
    Rule { name: String::new(), pattern: pattern.to_owned(), action, except: None }
}

fn rules_hold_for_details() {
    let with = Action::Replace(Replacement { with: "<user>".to_owned() });
    let redaction =
        vec![rule("alice", with), rule("secret", Action::Drop), rule("^4{9}$", Action::Hash)];
    let options = TextOptions { redaction, redaction_key: 7, ..TextOptions::default() };
    let (text, summary) = capture(options, || {
        let args = [
            ("of", "to alice".into()),
            ("secret key", 1.into()),
            ("code", "a secret".into()),
            ("phone", 444_444_444.into()),
            ("n", 5.into()),
        ];
        Event::new("named").category("alice's").args(&args).instant();
        drop(Event::new("secret").args(&args).section());
        let now = tracetee::now_ns();
        Event::new("secret").args(&args).complete(now, now);
    });
    let [comment, named] = &lines(&text)[..] else { panic!("{text}") };
    let begin = r##"#@ {"args":{"of":"to \u003cuser>","phone":"#"##;
    assert!(
        comment.starts_with(begin) && comment.ends_with(r##"","n":5},"cat":"\u003cuser>'s"}"##),
        "{text}"
    );
    assert_eq!(named, "I|named");
    assert_eq!((summary.redacted, summary.redacted_out), (1, 4));
    assert!(
        !text.contains("alice") && !text.contains("secret") && !text.contains("444444444"),
        "{text}"
    );
}

fn short_sections_go_with_their_details() {
    let mut options = TextOptions::default();
    options.min_slice_us.main = 2_000_000;
    options.min_slice_us.other = 2_000_000;
    let (text, summary) = capture(options, || {
        drop(Event::new("short").category("c").section());
        let now = tracetee::now_ns();
        Event::new("long").category("l").complete(now - 3_000_000_000, now);
        Event::new("short, given").category("c").complete(now, now + 1);
    });
    assert_eq!(lines(&text), [r##"#@ {"cat":"l"}"##, "B|long", "E"], "{text}");
    assert_eq!(summary.too_short, 4);
}

fn details_are_bounded() {
    let long = "\u{1}".repeat(5000);
    let name = "n".repeat(5000);
    let (text, _) = capture(TextOptions::default(), || {
        let args: Vec<_> = (0..300).map(|_| ("key", (&*long).into())).collect();
        let flows = [Flow::begin(u64::MAX); 300];
        Event::new(&name).category(&long).args(&args).flows(&flows).begin_track(&name, 1);
        Event::new("next").instant();
    });
    let longest = text.lines().map(str::len).max().unwrap();
    assert!(longest < 12 * 1024, "{longest}");
    let comment = &lines(&text)[0];
    assert!(comment.contains(r#""left_out":5"#), "{comment}");
    assert_eq!(lines(&text).last().unwrap(), "I|next");
}
