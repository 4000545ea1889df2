//! The timeline's page as people use it: mouse, keys, wheel and fingers in Chromium and Firefox. The tasks are in
//! `browser/timeline_tasks.mjs`, one for each thing that people do.

use std::fmt::Write;
use std::path::Path;
use tracetee_tests_convert::{run_tasks, run_tool};

/// Twelve frames of 5 ms, 16.667 ms apart, then one of `worst_us`, in which the main thread sleeps until thread 200 wakes it;
/// a counter with three values, a processor's clock, an async slice; surfaceflinger, which has most slices, and another app.
fn trace(worst_us: u32) -> String {
    let mut events: Vec<(u32, String)> = Vec::new();
    let mut line = |name: &str, tid: u32, pid: u32, us: u32, event: &str| {
        let at = 5_000_000 + us;
        let (seconds, fraction) = (at / 1_000_000, at % 1_000_000);
        let text = format!("{name}-{tid} ({pid}) [001] ...1 {seconds}.{fraction:06}: {event}\n");
        events.push((us, text));
    };
    let mark = |payload: &str| format!("tracing_mark_write: {payload}");
    let switch = |prev: u32, state: &str, next: u32| {
        format!(
            "sched_switch: prev_comm=a prev_pid={prev} prev_prio=120 prev_state={state} ==> next_comm=b next_pid={next} next_prio=120"
        )
    };
    let main = "com.example";
    line("<idle>", 0, 0, 0, &switch(0, "R", 100));
    line(main, 100, 100, 0, &mark("C|100|queue|5"));
    line(main, 100, 100, 230_000, &mark("C|100|queue|50.5"));
    line(main, 100, 100, 250_000, &mark("C|100|queue|7.25"));
    line(main, 100, 100, 10, "cpu_frequency: state=1800000 cpu_id=1");
    line(main, 100, 100, 1_000, &mark("S|100|fetch|1"));
    line(main, 100, 100, 90_000, &mark("F|100|fetch|1"));
    for frame in 0..12 {
        let at = frame * 16_667;
        line(main, 100, 100, at, &mark("B|100|Choreographer#doFrame"));
        line("RenderThread", 101, 100, at + 1_000, &mark("B|100|DrawFrame"));
        line("RenderThread", 101, 100, at + 2_000, &mark("E|100"));
        line(main, 100, 100, at + 5_000, &mark("E|100"));
    }
    let (at, sleep_us) = (12 * 16_667, worst_us - 20_000);
    line(main, 100, 100, at, &mark("B|100|Choreographer#doFrame"));
    line(main, 100, 100, at + 5_000, &mark("B|100|load"));
    line(main, 100, 100, at + 10_000, &switch(100, "S", 200));
    let woken = at + 10_000 + sleep_us;
    line("worker", 200, 100, woken, "sched_waking: comm=b pid=100 prio=120 target_cpu=001");
    line("worker", 200, 100, woken + 1_000, &switch(200, "S", 100));
    line(main, 100, 100, woken + 5_000, &mark("E|100"));
    line("RenderThread", 101, 100, woken + 6_000, &mark("B|100|DrawFrame"));
    line("RenderThread", 101, 100, woken + 7_000, &mark("E|100"));
    line(main, 100, 100, woken + 10_000, &mark("E|100"));
    for number in 0..100 {
        line("surfaceflinger", 500, 500, number * 2_000, &mark("B|500|onMessageReceived"));
        line("surfaceflinger", 500, 500, number * 2_000 + 100, &mark("E|500"));
    }
    line("com.other", 300, 300, 1_000, &mark("B|300|x"));
    line("com.other", 300, 300, 3_000, &mark("E|300"));
    events.sort_by_key(|(us, _)| *us);
    events.into_iter().fold("# tracer: nop\n".to_owned(), |mut text, (_, line)| {
        text.write_str(&line).unwrap();
        text
    })
}

/// A slice from which a flow goes to another thread's; an async slice and an instant; all with arguments.
const CHROME: &str = r#"{"traceEvents":[
    {"ph":"M","name":"thread_name","pid":1,"tid":3,"args":{"name":"worker"}},
    {"ph":"X","name":"send","cat":"net","pid":1,"tid":2,"ts":1000,"dur":500,"args":{"size":[1,2],"url":"x/</script>"}},
    {"ph":"s","name":"call","cat":"net","id":5,"pid":1,"tid":2,"ts":1100},
    {"ph":"X","name":"receive","cat":"ipc","pid":1,"tid":3,"ts":2000,"dur":100},
    {"ph":"f","bp":"e","name":"call","cat":"net","id":5,"pid":1,"tid":3,"ts":2050},
    {"ph":"b","name":"load","cat":"io","id":"0x7","pid":1,"tid":2,"ts":1000,"args":{"file":"a.db"}},
    {"ph":"e","name":"load","cat":"io","id":"0x7","pid":1,"tid":2,"ts":2500},
    {"ph":"i","s":"t","name":"mark","cat":"ui","pid":1,"tid":2,"ts":2900,"args":{"why":"late"}}]}"#;

/// A frame of 100 ms with samples of two functions, of which one calls the other.
const SAMPLED: &str = r##"# tracer: nop
#@ {"args":{"a":"com.app.Feed.bind","b":"com.app.Feed.fit","c":"android.os.Looper.loop"}}
 s-9 (7) [000] ...1 5.000000: tracing_mark_write: I|7|tracetee: stack names
 com.app-7 (7) [000] ...1 5.000000: tracing_mark_write: B|7|Choreographer#doFrame 1
#@ {"args":{"tid":7,"stack":"a c","for_us":40000}}
 s-9 (7) [000] ...1 5.040000: tracing_mark_write: I|7|tracetee: stack
#@ {"args":{"tid":7,"stack":"b a c","for_us":20000}}
 s-9 (7) [000] ...1 5.060000: tracing_mark_write: I|7|tracetee: stack
#@ {"args":{"tid":7,"stack":"c","for_us":20000}}
 s-9 (7) [000] ...1 5.080000: tracing_mark_write: I|7|tracetee: stack
 com.app-7 (7) [000] ...1 5.100000: tracing_mark_write: E|7
"##;

/// Text of more than 16 MB: 120,000 slices of 1 µs of a thread.
fn long() -> String {
    let mut text = "# tracer: nop\n".to_owned();
    for number in 0..120_000_u32 {
        for (us, payload) in
            [(number * 10, "B|8|a slice of a long trace"), (number * 10 + 1, "E|8")]
        {
            let (seconds, fraction) = (5 + us / 1_000_000, us % 1_000_000);
            writeln!(
                text,
                "worker-8 (8) [000] ...1 {seconds}.{fraction:06}: tracing_mark_write: {payload}"
            )
            .unwrap();
        }
    }
    text
}

/// Text of `trace_pipe` whose second processor lost records, as the agent did, and which says so.
const GAPS: &str = "# tracer: nop
 com.example-7 (7) [000] ...1 5.000000: tracing_mark_write: B|7|frame
 com.example-7 (7) [000] ...1 5.010000: tracing_mark_write: E|7
 worker-8 (7) [001] ...1 5.020000: tracing_mark_write: B|7|work
 worker-8 (7) [001] ...1 5.030000: tracing_mark_write: E|7
 com.example-7 (7) [000] ...1 5.035000: tracing_mark_write: B|7|frame
 com.example-7 (7) [000] ...1 5.045000: tracing_mark_write: E|7
CPU:1 [LOST 113 EVENTS]
 worker-8 (7) [001] ...1 5.070000: tracing_mark_write: B|7|work
 worker-8 (7) [001] ...1 5.080000: tracing_mark_write: E|7
 com.example-7 (7) [000] ...1 5.090000: tracing_mark_write: I|7|tracetee: 1 sections open before lost records
 com.example-7 (7) [000] ...1 5.100000: tracing_mark_write: B|7|frame
 com.example-7 (7) [000] ...1 5.110000: tracing_mark_write: E|7
";

fn pages(directory: &Path) -> [std::path::PathBuf; 6] {
    std::fs::write(directory.join("a.ftrace"), trace(50_000)).unwrap();
    std::fs::write(directory.join("b.json"), CHROME).unwrap();
    std::fs::write(directory.join("c.ftrace"), trace(30_000)).unwrap();
    std::fs::write(directory.join("long.ftrace"), long()).unwrap();
    std::fs::write(directory.join("sampled.ftrace"), SAMPLED).unwrap();
    std::fs::write(directory.join("gaps.ftrace"), GAPS).unwrap();
    ["a.ftrace", "b.json", "c.ftrace", "long.ftrace", "sampled.ftrace", "gaps.ftrace"].map(
        |input| {
            let page = format!("{input}.html");
            let _ = run_tool(directory, &["convert", input, "-o", &page]);
            directory.join(page)
        },
    )
}

#[test]
fn each_task_is_done_with_real_input_in_chromium() {
    let directory = tempfile::tempdir().unwrap();
    run_tasks("chromium", "timeline_tasks.mjs", &pages(directory.path()));
}

#[test]
fn each_task_is_done_with_real_input_in_firefox() {
    let directory = tempfile::tempdir().unwrap();
    run_tasks("firefox", "timeline_tasks.mjs", &pages(directory.path()));
}

/// Text of events: name of the thread, its id, its process, time in µs, marker.
fn text_of(events: impl Iterator<Item = (&'static str, u32, u32, u64, String)>) -> String {
    events.fold("# tracer: nop\n".to_owned(), |mut text, (name, tid, pid, us, payload)| {
        let (seconds, fraction) = (us / 1_000_000, us % 1_000_000);
        writeln!(
            text,
            "{name}-{tid} ({pid}) [000] ...1 {seconds}.{fraction:06}: tracing_mark_write: {payload}"
        )
        .unwrap();
        text
    })
}

/// 200,000 threads, half of them of one process; slices 1,000 deep; two hundred slices with ten years between them.
fn hostile(directory: &Path) -> [std::path::PathBuf; 3] {
    let pid = |thread: u32| if thread < 100_000 { 1000 } else { 1000 + thread };
    let name = "<img src=x onerror=document.title='owned'>";
    let threads = (0..400_000_u32).map(|event| {
        let (thread, begins) = (event % 200_000, event < 200_000);
        // A thread's slice takes less than 0.1 % of the trace.
        let us = 5_000_000 + u64::from(thread) * 2 + u64::from(!begins);
        let payload = if begins {
            format!("B|{}|slice {name}", pid(thread))
        } else {
            format!("E|{}", pid(thread))
        };
        ("<b>w</b>", 1000 + thread, pid(thread), us, payload)
    });
    let mut threads: Vec<_> = threads.collect();
    threads.sort_by_key(|event| event.3);
    let deep = (0..2000_u64).map(|event| {
        let payload = if event < 1000 { format!("B|7|level {event}") } else { "E|7".to_owned() };
        ("<i>deep", 7, 7, 5_000_000 + event, payload)
    });
    let years = (0..400_u64).map(|event| {
        let gap = if event < 200 { 0 } else { 10 * 365 * 86_400 * 1_000_000 };
        let when = if event < 200 { "before" } else { "after" };
        let payload = if event % 2 == 0 { format!("B|7|{when} {name}") } else { "E|7".to_owned() };
        ("<i>deep", 7, 7, 5_000_000 + event * 50 + gap, payload)
    });
    // Another process: one alone would not be folded.
    let other = [(30, "B|9|other"), (40, "E|9")];
    let other = other.map(|(us, payload)| ("<b>w</b>", 9, 9, 5_020_000 + us, payload.to_owned()));
    let gap = 10 * 365 * 86_400 * 1_000_000;
    let years =
        years.chain(other.map(|(name, tid, pid, us, payload)| (name, tid, pid, us + gap, payload)));
    [("threads", text_of(threads.into_iter())), ("deep", text_of(deep)), ("years", text_of(years))]
        .map(|(name, text)| {
            let (input, page) = (format!("{name}.ftrace"), format!("{name}.html"));
            std::fs::write(directory.join(&input), text).unwrap();
            let _ = run_tool(directory, &["convert", &input, "-o", &page]);
            directory.join(page)
        })
}

#[test]
fn hostile_traces_are_usable_in_chromium() {
    let directory = tempfile::tempdir().unwrap();
    run_tasks("chromium", "hostile_tasks.mjs", &hostile(directory.path()));
}

#[test]
fn hostile_traces_are_usable_in_firefox() {
    let directory = tempfile::tempdir().unwrap();
    run_tasks("firefox", "hostile_tasks.mjs", &hostile(directory.path()));
}

/// Forty frames with causes of any size, some next to nothing.
fn noise() -> String {
    let mut text = "# tracer: nop\n".to_owned();
    let mut line = |us: u64, payload: &str| {
        let at = 5_000_000 + us;
        let (seconds, fraction) = (at / 1_000_000, at % 1_000_000);
        writeln!(
            text,
            "app-7 (7) [000] ...1 {seconds}.{fraction:06}: tracing_mark_write: {payload}"
        )
        .unwrap();
    };
    for frame in 0..40_u64 {
        let at = frame * 100_000;
        let took = match frame % 20 {
            0..8 => 60_000,
            8..16 => 18_000,
            _ => 5_000,
        };
        // Digits in names are no other cause.
        let name = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]
            [usize::try_from(frame % 10).unwrap()];
        line(at, "B|7|Choreographer#doFrame");
        line(at + 10, &format!("B|7|Work{}{name}.run", if frame % 20 < 10 { "x" } else { "y" }));
        line(at + took, "E|7");
        line(at + took + 10, "E|7");
    }
    text
}

/// A capture of a device with a version, whose `Feed.bind` takes three times as long in 2.0.
fn capture(device: u32, version: &str) -> String {
    let number = version.trim_end_matches(".0");
    let mut text = format!(
        "# tracer: nop\n# tracetee: {{\"id\":\"00000000-0000-4000-8000-{device:010}0{number}\",\"app\":\"com.example.shop\",\"window\":\"w\",\
         \"why\":\"schedule\",\"pid\":7,\"install_id\":\"d{device}\",\"opens\":\"schedule\",\"version_name\":\"{version}\",\"model\":\"m\",\"api\":30,\"made_ms\":1790000000000}}\n"
    );
    let mut line = |us: u32, payload: &str| {
        let at = 5_000_000 + us;
        let (seconds, fraction) = (at / 1_000_000, at % 1_000_000);
        writeln!(
            text,
            "app-7 (7) [000] ...1 {seconds}.{fraction:06}: tracing_mark_write: {payload}"
        )
        .unwrap();
    };
    line(0, "I|7|screen:Feed");
    for frame in 0..30 {
        let at = 10 + frame * 150_000;
        let slow = if version == "2.0" { 90_000 } else { 30_000 };
        let bound = at + if frame % 10 == 3 { slow } else { 5_000 };
        let end = bound + if frame % 10 == 6 { 40_000 } else { 10 };
        line(at, "B|7|Choreographer#doFrame");
        line(at + 10, "B|7|Feed.bind");
        line(bound, "E|7");
        line(bound + 10, "B|7|inflate");
        line(end + 15, "E|7");
        line(end + 20, "E|7");
    }
    text
}

fn reports(directory: &Path) -> [std::path::PathBuf; 3] {
    std::fs::write(directory.join("a.ftrace"), trace(50_000)).unwrap();
    std::fs::write(directory.join("noise.ftrace"), noise()).unwrap();
    let mut arguments: Vec<String> =
        ["report", "--compare", "1.0", "2.0", "--format", "html", "-o", "fleet.html"]
            .map(str::to_owned)
            .to_vec();
    for (device, version) in (0..30).flat_map(|device| [(device, "1.0"), (device, "2.0")]) {
        let name = format!("{device}-{version}.ftrace");
        std::fs::write(directory.join(&name), capture(device, version)).unwrap();
        arguments.push(name);
    }
    let _ = run_tool(directory, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let [one, noise] = ["a.ftrace", "noise.ftrace"].map(|input| {
        let page = format!("{input}.html");
        let _ = run_tool(directory, &["report", input, "--format", "html", "-o", &page]);
        directory.join(page)
    });
    [one, noise, directory.join("fleet.html")]
}

#[test]
fn reports_are_read_and_clicked_in_chromium() {
    let directory = tempfile::tempdir().unwrap();
    run_tasks("chromium", "report_tasks.mjs", &reports(directory.path()));
}

#[test]
fn reports_are_read_and_clicked_in_firefox() {
    let directory = tempfile::tempdir().unwrap();
    run_tasks("firefox", "report_tasks.mjs", &reports(directory.path()));
}
