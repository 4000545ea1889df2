//! Tests of the text reader: line by line, and with traces of real phones.

use super::*;
use crate::model::{FIRST_KEY, Gap, NO_PARENT, UNFINISHED};

fn parsed(lines: &[&str]) -> Trace {
    let mut text = "# tracer: nop\n".to_owned();
    for line in lines {
        let (at, payload) = line.split_once(' ').unwrap();
        text.push_str(&format!(" app-5 (5) [000] ...1 {at}: tracing_mark_write: {payload}\n"));
    }
    read(text.as_bytes()).unwrap()
}

fn slices(trace: &Trace) -> Vec<(&str, u64, u64, Option<u32>, bool)> {
    let thread = &trace.threads[&5];
    thread
        .slices
        .iter()
        .map(|slice| {
            let parent = (slice.parent != NO_PARENT).then_some(slice.parent);
            let name = trace.names.text(slice.name);
            (name, slice.start_ns / 1000, slice.end_ns / 1000, parent, slice.ended)
        })
        .collect()
}

#[test]
fn begins_and_ends_become_slices_that_nest() {
    let trace = parsed(&["0.000001 B|5|a", "0.000002 B|5|b", "0.000003 E|5", "0.000004 B|5|c"]);
    let expected =
        [("a", 1, 4, None, false), ("b", 2, 3, Some(0), true), ("c", 4, 4, Some(0), false)];
    assert_eq!(slices(&trace), expected);
    assert_eq!((trace.losses.unclosed, trace.losses.unmatched_ends), (2, 0));
    assert_eq!(trace.span_ns, Some((1000, 4000)));
    assert_eq!(trace.threads[&5].pid, Some(5));
}

#[test]
fn bad_lines_are_counted_and_the_others_read() {
    let text = "# tracer: nop\n\
        app-5 (5) [000] ...1 0.000002: tracing_mark_write: E|5\n\
        nonsense\n\
        app-5 (5) [000] ...1 0.000001: tracing_mark_write: B|5|late\n\
        app-5 (5) [000] ...1 0.000003: tracing_mark_write: B|x|bad pid\n\
        app-5 (5) [000] ...1 0.000004: sched_switch: prev=1\n\
        app-5 (5) [000] ...1 0.000005: tracing_mark_write: E|5\n";
    let trace = read(text.as_bytes()).unwrap();
    assert_eq!(slices(&trace), [("late", 2, 5, None, true)]);
    let losses = &trace.losses;
    assert_eq!((losses.unmatched_ends, losses.out_of_order, losses.bad_lines), (1, 1, 2));
    let shown: Vec<_> = losses.shown.iter().map(|bad| (bad.number, bad.why)).collect();
    assert_eq!(shown, [(3, "no THREAD-TID"), (5, "the pid is not a number")]);
    assert_eq!(trace.kernel_events.get("sched_switch"), Some(&1));
}

#[test]
fn async_sections_pair_by_name_or_track_and_cookie() {
    let trace = parsed(&[
        "0.000001 S|5|a|1",
        "0.000002 S|5|a|2",
        "0.000003 F|5|a|1",
        "0.000004 G|5|t|b|1",
        "0.000005 H|5|t|1",
        "0.000006 F|5|a|9",
    ]);
    let ends: Vec<_> = trace.asyncs.iter().map(|one| (one.cookie, one.end_ns)).collect();
    assert_eq!(ends, [(1, 3000), (2, UNFINISHED), (1, 5000)]);
    assert_eq!((trace.losses.unclosed_asyncs, trace.losses.unmatched_async_ends), (1, 1));
}

#[test]
fn an_async_section_that_is_open_does_not_begin_again() {
    let trace = parsed(&[
        "0.000001 S|5|lock|9",
        "0.000002 S|5|lock|9",
        "0.000003 S|5|lock|9",
        "0.000004 F|5|lock|9",
        "0.000005 S|5|lock|9",
        "0.000006 F|5|lock|9",
        "0.000007 G|5|t|outer|1",
        "0.000008 G|5|t|inner|1",
    ]);
    let times: Vec<_> =
        trace.asyncs.iter().map(|one| (one.start_ns / 1000, one.end_ns / 1000)).collect();
    let open = UNFINISHED / 1000;
    assert_eq!(times, [(1, 4), (5, 6), (7, open), (8, open)]);
    assert_eq!(trace.losses.unread.values().sum::<u64>(), 2);
}

#[test]
fn threads_with_the_id_of_an_earlier_one_are_counted() {
    let switched = "a-5 (5) [000] ...1 2.000001: sched_switch: prev_comm=a prev_pid=5 prev_prio=120 prev_state=S ==> \
        next_comm=b next_pid=6 next_prio=120";
    let born =
        "b-6 (6) [000] ...1 3.000001: task_newtask: pid=5 comm=b clone_flags=1 oom_score_adj=0";
    let count = |lines: [&str; 2]| {
        let text = format!("# tracer: nop\n{}\n", lines.join("\n"));
        read(text.as_bytes()).unwrap().losses.unread.into_values().sum::<u64>()
    };
    assert_eq!((count([switched, born]), count([born, switched])), (1, 0));
}

#[test]
fn the_agent_s_header_is_read() {
    let text = "# tracer: nop\n# tracetee: {\"window\":\"jank\",\"n\":1}\n# tracetee: {\"n\":2}\n";
    let trace = read(text.as_bytes()).unwrap();
    assert_eq!(trace.about.window.as_deref(), Some("jank"));
    assert_eq!(trace.about.other["n"], "2");
    assert_eq!(trace.span_ns, None);
}

#[test]
fn a_file_that_is_no_trace_is_refused_with_its_first_line() {
    let error = read(&b"<html>\n<body>\n"[..]).unwrap_err().to_string();
    assert_eq!(error, "is not a trace: no line of it is a trace line");
    let error = read(&b"nonsense\n"[..]).unwrap_err().to_string();
    assert_eq!(error, "is not a trace: line 1: no THREAD-TID (\"nonsense\")");
    assert_eq!(read(&b""[..]).unwrap_err().to_string(), "is not a trace: it is empty");
}

#[test]
fn a_page_s_sections_are_read_and_the_rest_of_it_is_not() {
    let page = "<!DOCTYPE html>\n<html><head>\n<script>var x = '-1 [000] 1.0: a: b';\n\
        var y = 'class=\"trace-data\" application/text';</script>\n\
        \u{20} <script class=\"trace-data\" type=\"application/text\">\n\
        PROCESS DUMP\n\
        USER           PID  PPID     VSZ    RSS WCHAN  PC S NAME                        COMM\n\
        u0_a157       1259  8162 1532720 307340 SyS_epoll_wait 0 S com.example app_process32\n\
        USER           PID   TID CMD\n\
        u0_a157       1259  1259 m.example\n\
        u0_a157       1259  1291 Jit thread pool\n\
        \u{20} </script>\n\
        \u{20} <script class=\"trace-data\" type=\"application/json\">\n{\"a\": 1}\n  </script>\n\
        \u{20} <script class=\"trace-data\" type=\"application/text\">\n\
        CGROUP DUMP\n#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t3\t9\t1\n\
        # cgroup task attachment\n/top-app (root=3) : 1259 1291 \n/background (root=3) : \n\
        \u{20} </script>\n\
        \u{20} <script class=\"trace-data\" type=\"application/text\">\n\
        # tracer: nop\n\
        \u{20}          <...>-1291  (-----) [000] ...1 1.000001: tracing_mark_write: B|1259|a\n\
        \u{20}          <...>-1291  (-----) [000] ...1 1.000002: tracing_mark_write: E|1259\n\
        \u{20} </script>\n</body>\n</html>\n";
    let trace = read(page.as_bytes()).unwrap();
    assert_eq!(trace.losses.bad_lines, 0, "{:?}", trace.losses.shown);
    assert_eq!(trace.threads.len(), 1);
    let thread = &trace.threads[&1291];
    assert_eq!((thread.pid, thread.name(&trace.names)), (Some(1259), "Jit thread pool"));
    assert_eq!(thread.slices.len(), 1);
    assert_eq!(trace.names.text(trace.processes[&1259].name), "com.example");
}

#[test]
fn markers_whose_function_an_old_kernel_does_not_name_are_read() {
    let text = "app-5 (5) [000] ...1 1.000001: 0: B|5|a\n\
        app-5 (5) [000] ...1 1.000003: 0: E|5\n";
    let trace = read(text.as_bytes()).unwrap();
    let slice = trace.threads[&5].slices[0];
    assert_eq!((trace.names.text(slice.name), slice.duration_ns()), ("a", 2_000));
}

#[test]
fn a_thread_id_that_is_given_again_is_another_thread() {
    let line = |name, tgid, us, payload| {
        format!("{name}-7 ({tgid}) [000] ...1 0.{us:06}: tracing_mark_write: {payload}\n")
    };
    let text = [
        line("old", 5, 1, "B|5|a"),
        line("old", 5, 2, "B|5|b"),
        line("new", 6, 3, "E|6"),
        line("new", 6, 4, "B|6|c"),
        line("new", 6, 5, "E|6"),
    ];
    let trace = read(text.concat().as_bytes()).unwrap();
    let told: Vec<_> = trace
        .threads
        .iter()
        .map(|(&key, thread)| {
            (key, thread.tid, thread.pid, thread.name(&trace.names), thread.slices.len())
        })
        .collect();
    assert_eq!(told, [(7, 7, Some(5), "old", 2), (FIRST_KEY, 7, Some(6), "new", 1)]);
    assert_eq!((trace.losses.unclosed, trace.losses.unmatched_ends), (2, 1));
}

#[test]
fn the_scheduler_s_events_are_states() {
    let switch = |us, prev, state, next| {
        format!(
            "x-1 (1) [000] d..2 0.{us:06}: sched_switch: prev_comm=a prev_pid={prev} \
            prev_prio=120 prev_state={state} ==> next_comm=b next_pid={next} next_prio=120\n"
        )
    };
    let wake = |us, pid| {
        format!(
            "x-1 (1) [000] d..2 0.{us:06}: sched_waking: comm=b pid={pid} prio=1 target_cpu=001\n"
        )
    };
    let text = [
        switch(1, 0, "R", 1),
        wake(2, 1),
        switch(3, 1, "R+", 2),
        switch(4, 2, "S", 1),
        switch(5, 1, "D", 0),
        wake(6, 1),
        wake(7, 1),
    ];
    let trace = read(text.concat().as_bytes()).unwrap();
    let states: String =
        trace.threads[&1].states.iter().map(|state| char::from(state.kind)).collect();
    assert_eq!(states, "rRrDR");
    assert_eq!(trace.kernel_events["sched_switch"], 4);
}

#[test]
fn texts_of_kernel_events_that_recur_are_kept_once() {
    let line = |us: u32, state: u32| {
        format!(" a-1 (1) [000] d..2 1.{us:06}: cpu_idle: state={state} cpu_id=0\n")
    };
    let text: String = (0..1000).map(|us| line(us, us % 3)).collect();
    let trace = read_for(text.as_bytes(), true).unwrap();
    let expected = (0..1000).map(|us| format!("d..2 state={} cpu_id=0", us % 3));
    let texts = trace.kernel.iter().map(|event| {
        let text = trace.event_text(event).unwrap();
        [text.flags, text.payload].map(String::from_utf8_lossy).join(" ")
    });
    assert_eq!(texts.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    assert_eq!(trace.kernel_text.len(), 3 * "d..2state=0 cpu_id=0".len());
}

#[test]
fn records_before_damage_are_kept() {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    for us in 0..10_000 {
        writeln!(gzip, "x-1 (1) [000] d..2 0.{us:06}: tracing_mark_write: I|1|now").unwrap();
    }
    let whole = gzip.finish().unwrap();
    let half = std::io::Cursor::new(whole[..whole.len() / 2].to_vec());
    let trace = read(crate::open(half).unwrap()).unwrap();
    assert!(trace.instants.len() > 4_000 && trace.instants.len() < 6_000);
    let (at, why) = trace.losses.truncated.unwrap();
    assert!(at > 200_000 && !why.is_empty(), "{at} {why}");
    let cut = std::io::Cursor::new(whole[..15].to_vec());
    let error = crate::open(cut).and_then(read).unwrap_err();
    assert!(error.to_string().starts_with("cannot be decompressed after byte 0 of its content: "));
}

#[test]
fn output_of_trace_cmd_report_is_read() {
    let text = "cpus=2\n\
        app-5     [001]  1.000001: print:                0xffffffff8: B|5|a: b\n\
        app-5     [001]  1.000002: print:                tracing_mark_write: E|5\n";
    let trace = read(text.as_bytes()).unwrap();
    assert_eq!(slices(&trace), [("a: b", 1_000_001, 1_000_002, None, true)]);
}

#[test]
fn traces_of_real_phones_are_read_whole() {
    let read = |name: &str| {
        let path = crate::phone_trace::path(name)?;
        Some(crate::read_file(&path).unwrap())
    };
    for (name, lines, threads) in [
        ("list-jank.ftrace.txt.gz", 280_526, 24_874_u32),
        ("flutter-app.ftrace.txt.gz", 141_632, 1259),
        ("atrace-small.txt", 1_042, 18_926),
    ] {
        let Some(trace) = read(name) else { continue };
        let losses = &trace.losses;
        assert_eq!(losses.bad_lines, 0, "{name}: {:?}", losses.shown);
        assert!(losses.lines >= lines, "{name}: {}", losses.lines);
        let frames = trace.names.iter().find(|(_, name)| *name == "Choreographer#doFrame");
        let (frame, _) = frames.unwrap();
        let main = &trace.threads[&threads];
        let count = main.slices.iter().filter(|slice| slice.name == frame).count();
        let expected = match name {
            "list-jank.ftrace.txt.gz" => 247,
            "flutter-app.ftrace.txt.gz" => 248,
            _ => 15,
        };
        assert_eq!(count, expected, "{name}");
    }
    let (text, zipped) = (read("atrace-small.txt").unwrap(), read("atrace-small.z").unwrap());
    assert_eq!(text.span_ns, zipped.span_ns);
    assert_eq!(text, zipped);
}

/// A page as systrace wrote it before 2013, with these lines of text.
fn old_page(lines: &[&str]) -> String {
    let mut page = "<!DOCTYPE HTML>\n<html>\n<script>if (!linuxPerfData) return;\nimport(\"[]\", [linuxPerfData]);\n\
        </script>\n<body>\n  <script>\n  var linuxPerfData = \"\\\n"
        .to_owned();
    for line in lines {
        page.push_str(&line.replace('\\', "\\\\").replace('"', "\\\""));
        page.push_str("\\n\\\n");
    }
    page.push_str(
        "           dummy-0000  [000] 0.0: 0: trace_event_clock_sync: parent_ts=0.0\\n\";\n",
    );
    page.push_str("  var timelineViewEl;\n  function onLoad() { x-5 [000] 9.0: y: z }\n</script>\n</body>\n</html>\n");
    page
}

#[test]
fn a_page_with_the_text_as_a_string_of_a_script_is_read() {
    let page = old_page(&[
        "# tracer: nop",
        "#           TASK-PID    CPU#    TIMESTAMP  FUNCTION",
        "app-5     [000] 1.000001: tracing_mark_write: B|5|a \"b\" c\\d",
        "app-5     [000] 1.000009: tracing_mark_write: E",
    ]);
    let trace = read(page.as_bytes()).unwrap();
    assert_eq!(trace.losses.bad_lines, 0, "{:?}", trace.losses.shown);
    assert_eq!(trace.span_ns, Some((1_000_001_000, 1_000_009_000)));
    let slice = trace.threads[&5].slices[0];
    assert_eq!(trace.names.text(slice.name), "a \"b\" c\\d");
    // The reader of lines, which text that stays as it is goes through, sees the same.
    let mut payloads = Vec::new();
    let take = |part: Part<'_>| {
        if let Part::Event(line) = part {
            payloads.push(String::from_utf8(line.payload.to_vec()).unwrap());
        }
        Ok(())
    };
    parts(page.as_bytes(), take).unwrap();
    assert_eq!(payloads, ["B|5|a \"b\" c\\d", "E"]);
}

proptest::proptest! {
    #[test]
    fn no_page_is_too_much_for_it(lines in proptest::collection::vec("[ -~]{0,30}(\\\\n\\\\|\";|\\\\)?", 0..12)) {
        let text = format!("<html>\nvar linuxPerfData = \"\\\n{}", lines.join("\n"));
        let _ = read(text.as_bytes());
        let _ = parts(text.as_bytes(), |_| Ok(()));
    }
}

/// Beginnings of lines, alike enough to be taken for one another: threads of one place, ids that are given again, names that
/// look like the beginning of a line, words that begin a table.
const PREFIXES: [&str; 15] = [
    "",
    "            main-5     (    5) ",
    "            main-5     (    6) ",
    "            main-5     (-----) ",
    "           other-5     (    5) ",
    "           <...>-5     (    5) ",
    "            main-55    (    5) ",
    "       a-5 (5) [000] x-5 (    5) ",
    "            far-69     (    5) ",
    "-5 ",
    "   -5   5 ",
    "main-5     (    5)",
    "TRACE:-5 (5) ",
    "USER a-5 (5) ",
    "\u{e9}-5 (5) ",
];
const RESTS: [&str; 13] = [
    "[000] ...1 1.00000N: tracing_mark_write: B|5|name N",
    "[001] d..2 1.00000N: tracing_mark_write: B|5|\u{e9}",
    "[000] ...1 1.00000N: tracing_mark_write: E|5",
    "[7] 100000000N: tracing_mark_write: E",
    "[000] .... 1.00000N: print: 0x1: C|5|heap|N",
    "[000] ...1 1.00000N: sched_switch: prev_comm=main prev_pid=5 prev_prio=120 prev_state=S ==> next_comm=a=b \
     next_pid=69 next_prio=120",
    "[000] ...1 1.00000N: sched_switch: prev_comm=far prev_pid=69 prev_prio=-1 prev_state=R+ ==> next_comm=main \
     next_pid=5 next_prio=98",
    "[000] ...1 1.00000N: sched_waking: comm=main pid=5 prio=120 target_cpu=000",
    "[000] ...1 1.00000N tracing_mark_write: E|5",
    "[000] ...1 1.00000N: a b: c",
    "[000] -6 [1] 1.00000N: tracing_mark_write: B|5|two dashes",
    "000] ...1 1.00000N: tracing_mark_write: E|5",
    "",
];
const OTHERS: [&str; 5] =
    ["PROCESS DUMP", "USER PID TID CMD", "root 7 69 dumped", "# comment", "CPU:0 [LOST]"];

proptest::proptest! {
    /// In a page no prefix is kept.
    #[test]
    fn a_kept_prefix_changes_nothing(
        lines in proptest::collection::vec((0..PREFIXES.len(), 0..RESTS.len(), 0..10_u8, 0..60_usize), 1..60),
    ) {
        let lines = lines.into_iter().map(|(prefix, rest, number, other)| match OTHERS.get(other) {
            Some(&other) => other.to_owned(),
            None => format!("{}{}", PREFIXES[prefix], RESTS[rest].replace('N', &number.to_string())),
        });
        let text = lines.fold("# tracer: nop\n".to_owned(), |text, line| text + &line + "\n");
        let page = format!("<html>\n<script class=\"trace-data\" type=\"application/text\">\n{text}</script>\n");
        let (plain, in_page) = (read(text.as_bytes()), read(page.as_bytes()));
        let (Ok(mut plain), Ok(mut in_page)) = (plain, in_page) else {
            proptest::prop_assert!(read(text.as_bytes()).is_err() && read(page.as_bytes()).is_err());
            return Ok(());
        };
        for trace in [&mut plain, &mut in_page] {
            trace.losses.lines = 0;
            trace.losses.shown.iter_mut().for_each(|bad| bad.number = 0);
        }
        proptest::prop_assert_eq!(plain, in_page);
    }
}

#[test]
fn records_that_are_lost_are_counted_and_end_what_is_open() {
    let text = "# tracer: nop\n\
        a-5 (5) [004] ...1 1.000001: tracing_mark_write: B|5|Choreographer#doFrame\n\
        b-6 (5) [005] ...1 1.000002: tracing_mark_write: B|5|work\n\
        a-5 (5) [004] ...1 1.000003: tracing_mark_write: B|5|parse\n\
        CPU:4 [LOST 37 EVENTS]\n\
        CPU:7 [LOST EVENTS]\n\
        a-5 (5) [004] ...1 1.000400: tracing_mark_write: B|5|next\n\
        a-5 (5) [004] ...1 1.000500: tracing_mark_write: E|5\n\
        b-6 (5) [005] ...1 1.000600: tracing_mark_write: E|5\n";
    let trace = read(text.as_bytes()).unwrap();
    assert_eq!(trace.losses.lost, [("kernel events overwritten".to_owned(), 38)].into());
    assert_eq!((trace.losses.unclosed, trace.losses.unmatched_ends), (2, 0));
    let us = |tid: u32| -> Vec<_> {
        let slices = trace.threads[&tid].slices.iter();
        slices.map(|one| (one.start_ns / 1000, one.end_ns / 1000, one.ended)).collect()
    };
    let at = |us: u64| 1_000_000 + us;
    assert_eq!(us(5), [(at(1), at(3), false), (at(3), at(3), false), (at(400), at(500), true)]);
    assert_eq!(us(6), [(at(2), at(600), true)]);
    // To the next record of the processor; one that has none is missing all the time.
    let gap = |from_us, to_us, cpu, count| Gap {
        why: "kernel events overwritten",
        from_ns: at(from_us) * 1000,
        to_ns: at(to_us) * 1000,
        cpu: Some(cpu),
        count,
    };
    assert_eq!(trace.losses.gaps, [gap(1, 600, 7, None), gap(3, 400, 4, Some(37))]);
}

#[test]
fn notes_of_losses_are_read_as_the_kernel_and_trace_cmd_write_them() {
    let lost = |note: &str| super::lost(note.as_bytes());
    assert_eq!(lost("CPU:4 [LOST 37 EVENTS]"), Some((4, Some(37))));
    assert_eq!(lost("CPU:4 [LOST EVENTS]"), Some((4, None)));
    assert_eq!(lost("CPU:12 [37 EVENTS DROPPED]"), Some((12, Some(37))));
    assert_eq!(lost("CPU:1 [EVENTS DROPPED]"), Some((1, None)));
    assert_eq!(lost("CPU:1 [EVENTS]"), None);
    assert_eq!(lost("CPU 4 buffer started"), None);
}

#[test]
fn many_notes_of_losses_without_a_record_between_them_are_one_gap() {
    let record = "a-5 (5) [000] ...1 1.000001: tracing_mark_write: E|5\n";
    let notes = "CPU:0 [LOST 2 EVENTS]\n".repeat(50_000);
    let trace = read(format!("# tracer: nop\n{record}{notes}{record}").as_bytes()).unwrap();
    let counts: Vec<_> = trace.losses.gaps.iter().map(|gap| gap.count).collect();
    assert_eq!(counts, [Some(100_000)]);
    let apart = format!("{record}CPU:0 [LOST 2 EVENTS]\n").repeat(50_000);
    let trace = read(format!("# tracer: nop\n{apart}").as_bytes()).unwrap();
    assert_eq!(trace.losses.gaps.len(), crate::gaps::MAX_GAPS);
    assert_eq!(trace.losses.lost["kernel events overwritten"], 100_000);
}

#[test]
fn ends_of_a_window_and_times_between_traces_without_records_are_gaps() {
    let text = |window: &str, seconds: [u32; 2]| {
        let [from, to] = seconds.map(|s| format!("a-5 (5) [000] ...1 {s}.0: tracing_mark_write: "));
        format!("# tracer: nop\n# tracetee: {{\"span_ns\":{window}}}\n{from}B|5|x\n{to}E|5\n")
    };
    let gaps = |trace: &Trace| -> Vec<_> {
        let gaps = trace.losses.gaps.iter();
        gaps.map(|gap| (gap.why, gap.from_ns / 1_000_000, gap.to_ns / 1_000_000)).collect()
    };
    let first = read(text("[500000000,2050000000]", [1, 2]).as_bytes()).unwrap();
    let window = ("no records at the begin of the capture's window", 500, 1_000);
    assert_eq!(gaps(&first), [window]);
    let second = read(text("[3000000000,4200000000]", [3, 4]).as_bytes()).unwrap();
    let end = ("no records at the end of the capture's window", 4_000, 4_200);
    assert_eq!(gaps(&second), [end]);
    // Not of a window that lies elsewhere, or is longer than any.
    for window in ["[0,100]", "[9,1]", "[0,9000000000000000000]"] {
        assert_eq!(gaps(&read(text(window, [1, 2]).as_bytes()).unwrap()), []);
    }
    let both = crate::merge(&[(&first, 0), (&second, 1_000_000_000)]);
    let between = ("no trace has this time", 2_000, 4_000);
    assert_eq!(gaps(&both), [window, between, (end.0, 5_000, 5_200)]);
}

#[test]
fn a_frame_that_begins_inside_a_frame_ends_it_where_the_thread_was_seen_last() {
    let text = "# tracer: nop\n\
        CPU:1 [LOST 3 EVENTS]\n\
        a-5 (5) [000] ...1 1.000001: tracing_mark_write: B|5|Choreographer#doFrame 7\n\
        a-5 (5) [000] ...1 1.000002: tracing_mark_write: B|5|Choreographer#doFrame - resynced to 8 in 1ms\n\
        a-5 (5) [000] ...1 1.000003: tracing_mark_write: E|5\n\
        a-5 (5) [000] ...1 1.000004: tracing_mark_write: B|5|traversal\n\
        a-5 (5) [000] ...1 1.000100: tracing_mark_write: B|5|Choreographer#doFrame 9\n\
        a-5 (5) [000] ...1 1.000105: tracing_mark_write: E|5\n";
    let trace = read(text.as_bytes()).unwrap();
    let slices = &trace.threads[&5].slices;
    let us: Vec<_> = slices
        .iter()
        .map(|one| (one.start_ns / 1000 - 1_000_000, one.end_ns / 1000 - 1_000_000))
        .collect();
    assert_eq!(us, [(1, 4), (2, 3), (4, 4), (100, 105)]);
    assert_eq!(slices[3].parent, NO_PARENT);
    assert_eq!(trace.losses.unclosed, 2);
}

#[test]
fn lines_of_one_processor_after_those_of_another_are_paired_by_time() {
    let text = "# tracer: nop\n\
        ui-900 (900) [000] ...1 10.000300: tracing_mark_write: E|900\n\
        ui-900 (900) [001] ...1 10.000100: tracing_mark_write: B|900|Looper.dispatchMessage\n\
        #@ {\"args\":{\"k\":1}}\n\
        ui-900 (900) [001] ...1 10.000400: tracing_mark_write: B|900|next\n\
        ui-900 (900) [001] ...1 10.000500: tracing_mark_write: E|900";
    let sorted = sorted(std::io::Cursor::new(text)).unwrap();
    let trace = read(&*sorted).unwrap();
    let thread = &trace.threads[&900];
    let slices: Vec<_> = thread
        .slices
        .iter()
        .map(|slice| (trace.names.text(slice.name), slice.start_ns, slice.end_ns, slice.ended))
        .collect();
    let at = |us: u64| 10_000_000_000 + us * 1000;
    assert_eq!(
        slices,
        [("Looper.dispatchMessage", at(100), at(300), true), ("next", at(400), at(500), true)]
    );
    assert_eq!((thread.args.len(), thread.args.contains_key(&1)), (1, true));
    let losses = crate::Losses { lines: 6, ..crate::Losses::default() };
    assert_eq!(trace.losses, losses);
}

#[test]
fn times_of_a_clock_without_a_unit_are_named() {
    let text =
        " a-5 ( 5) [000] d..2. 4205962092085: sched_waking: comm=b pid=6 prio=120 target_cpu=000\n";
    let unread = |text: &str| read(text.as_bytes()).unwrap().losses.unread.values().sum::<u64>();
    assert_eq!(unread(&format!("# tracer: nop\n{text}")), 1);
    // trace-cmd prints ns so.
    assert_eq!(unread(&format!("cpus=4\n{text}")), 0);
    assert_eq!(unread(&format!("# tracer: nop\n{}", text.replace("4205962", "4205962."))), 0);
}

#[test]
fn a_text_with_more_threads_than_any_phone_ends_there() {
    let begins = |count: u32| {
        let line = |tid| format!(" a-{tid} (5) [000] ...1 1.000000: tracing_mark_write: B|5|a\n");
        (1..=count).map(line).collect::<String>()
    };
    let trace = read(begins(264_000).as_bytes()).unwrap();
    let (_, why) = trace.losses.truncated.unwrap();
    assert_eq!(why, "more than 262144 threads");
    assert!(read(begins(262_144).as_bytes()).unwrap().losses.truncated.is_none());

    let switches = (1..=131_100).map(|i| {
        let (prev, next) = (2 * i, 2 * i + 1);
        format!(
            " a-5 (5) [000] ...1 1.000000: sched_switch: prev_comm=a prev_pid={prev} prev_prio=1 prev_state=S ==> next_comm=b next_pid={next} next_prio=1\n"
        )
    });
    let trace = read(switches.collect::<String>().as_bytes()).unwrap();
    let lost = &trace.losses.unread;
    assert_eq!(lost["states of threads beyond the first 262144"], 56);
}
