//! The timeline's page about a frame: its deadline, causes, states and critical path; links, fingers, narrow screens.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::fmt::Write;
use std::io::Read;
use std::path::Path;
use tracetee_tests::tools::{chromium, rendered};
use tracetee_tests_convert::{driven_at, run_tool};

/// Twelve frames of 5 ms, 16.667 ms apart, then one of 50, 33.333 past its deadline. It runs for 10, sleeps in `load` for 30
/// until thread 200 wakes it, waits 1 for a processor, runs for 9. Another process has four threads with next to nothing.
fn trace() -> String {
    let mut text = "# tracer: nop\n".to_owned();
    let mut line = |name: &str, tid: u32, pid: u32, us: u64, event: &str| {
        let at = 5_000_000 + us;
        let (seconds, us) = (at / 1_000_000, at % 1_000_000);
        writeln!(text, "{name}-{tid} ({pid}) [001] ...1 {seconds}.{us:06}: {event}").unwrap();
    };
    let mark = |payload: &str| format!("tracing_mark_write: {payload}");
    let switch = |prev: u32, state: &str, next: u32| {
        format!(
            "sched_switch: prev_comm=a prev_pid={prev} prev_prio=120 prev_state={state} ==> next_comm=b next_pid={next} next_prio=120"
        )
    };
    line("<idle>", 0, 0, 0, &switch(0, "R", 100));
    for frame in 0..12 {
        let at = frame * 16_667;
        line("com.example", 100, 100, at, &mark("B|100|Choreographer#doFrame"));
        line("RenderThread", 101, 100, at + 1_000, &mark("B|100|DrawFrame"));
        line("RenderThread", 101, 100, at + 2_000, &mark("E|100"));
        line("com.example", 100, 100, at + 5_000, &mark("E|100"));
    }
    let at = 12 * 16_667;
    line("com.example", 100, 100, at, &mark("B|100|Choreographer#doFrame"));
    line("com.example", 100, 100, at + 5_000, &mark("B|100|load"));
    line("com.example", 100, 100, at + 10_000, &switch(100, "S", 0));
    for tid in 300..304 {
        line("other", tid, 300, at + 20_000, &mark("B|300|x"));
        line("other", tid, 300, at + 20_001, &mark("E|300"));
    }
    line("worker", 200, 100, at + 40_000, "sched_waking: comm=b pid=100 prio=120 target_cpu=001");
    line("<idle>", 0, 0, at + 41_000, &switch(0, "R", 100));
    line("com.example", 100, 100, at + 45_000, &mark("E|100"));
    line("RenderThread", 101, 100, at + 46_000, &mark("B|100|DrawFrame"));
    line("RenderThread", 101, 100, at + 47_000, &mark("E|100"));
    line("com.example", 100, 100, at + 50_000, &mark("E|100"));
    text
}

fn page(directory: &Path) -> std::path::PathBuf {
    std::fs::write(directory.join("in.ftrace"), trace()).unwrap();
    let _ = run_tool(directory, &["convert", "in.ftrace", "-o", "page.html"]);
    directory.join("page.html")
}

#[test]
fn a_link_selects_a_frame_and_the_panel_explains_it() {
    let Some(chromium) = chromium() else { return };
    let directory = tempfile::tempdir().unwrap();
    let page = page(directory.path());
    // The begin of the long frame: 5 s + 200,004 µs.
    let result = driven_at(
        &chromium,
        &page,
        "#t=5.200004",
        1400,
        "const panel = page.getElementById('panel').innerText.replace(/\\t\\n/g, '\\t');
        const { why, dur } = tracetee.frame();
        let at = 0, gaps = 0;
        for (const step of why.path) { if (step.from_ns !== at) gaps++; at = step.to_ns; }
        const rows = tracetee.rows().map((row) => row.title);
        // The longest step of the path: a click shows it.
        const longest = why.path.reduce((a, b) => b.to_ns - b.from_ns > a.to_ns - a.from_ns ? b : a);
        const buttons = [...page.querySelectorAll('#panel button')];
        buttons.find((button) => button.textContent === '+10.000 ms').click();
        const view = [tracetee.view.from, tracetee.view.to];
        key('Escape');
        const whole = page.getElementById('panel').innerText;
        return { panel, dur, gaps, at, rows, longest, view, whole, legend: page.getElementById('legend').innerText,
            link: window.location.hash, states: [...tracetee.states.get(100).state] };",
    );
    let panel = result["panel"].as_str().unwrap_or_else(|| panic!("{result}"));
    for text in [
        "Frame at 200.0 ms: 50.000 ms, 33.333 ms past its deadline",
        "deadline 16.667 ms after its begin",
        "wait\twoken by worker\t30.000 ms\t60.0 %\t20.000 ms\tasleep 30.000 ms",
        "running 19.000 ms, runnable 1.000 ms, asleep 30.000 ms",
        "runnable\tload\tworker-200",
        "The app's slices in it",
    ] {
        assert!(panel.contains(text), "{text}: {panel}");
    }
    // The other process' slices are not of the app.
    assert!(!panel.contains("\nx\t"), "{panel}");
    // The path has no gap and ends with the frame.
    assert_eq!((&result["gaps"], &result["at"]), (&0.into(), &50_000_000.into()), "{result}");
    assert_eq!(
        (&result["longest"]["from_ns"], &result["longest"]["to_ns"]),
        (&10_000_000.into(), &40_000_000.into())
    );
    let (from, to) = (result["view"][0].as_f64().unwrap(), result["view"][1].as_f64().unwrap());
    assert!((from - 204_004.0).abs() < 1.0 && (to - 246_004.0).abs() < 1.0, "{result}");
    // On, asleep, ready, on.
    assert_eq!(result["states"], serde_json::json!([0, 2, 1, 0]));
    let link = result["link"].as_str().unwrap();
    assert!(link.starts_with("#t=5.204004") && link.contains("&d=0.042"), "{link}");
    let whole = result["whole"].as_str().unwrap();
    assert!(
        whole.contains("Late frames") && whole.contains("33.333 ms\twait: woken by worker"),
        "{whole}"
    );
    assert!(result["legend"].as_str().unwrap().contains("deadline"), "{result}");
    // Processes with next to nothing are one row only if there are several of them: here is one, its threads are one row.
    let rows = result["rows"].to_string();
    assert!(
        rows.contains("threads below 0.1 % of the time") && !rows.contains("other 301"),
        "{rows}"
    );
}

#[test]
fn a_cause_s_link_fingers_and_a_narrow_screen() {
    let Some(chromium) = chromium() else { return };
    let directory = tempfile::tempdir().unwrap();
    let page = page(directory.path());
    let result = driven_at(
        &chromium,
        &page,
        "#cause=wait%7Cwoken%20by%20worker",
        360,
        "const selected = tracetee.frame()?.dur;
        const wide = page.documentElement.scrollWidth;
        const main = page.getElementById('view');
        const box = main.getBoundingClientRect();
        const point = (type, pointerId, x, y) => main.dispatchEvent(new window.PointerEvent(type,
            { pointerId, clientX: box.left + x, clientY: box.top + y, pointerType: 'touch', bubbles: true, cancelable: true }));
        key('0');
        tracetee.draw();
        const span = () => tracetee.view.to - tracetee.view.from;
        const atOf = (x) => { const left = tracetee.xOf(tracetee.view.from); return tracetee.view.from + (x - left) / (box.width - left) * span(); };
        // Two fingers, 60 px apart around 220 px, then 120 px: half the time, the same time in the middle.
        const before = span(), middle = atOf(220);
        point('pointerdown', 1, 190, 100); point('pointerdown', 2, 250, 100);
        point('pointermove', 1, 160, 100); point('pointermove', 2, 280, 100);
        const pinched = span() / before, moved = atOf(220) - middle;
        point('pointerup', 2, 280, 100);
        // The finger that stays drags: 100 px to the right.
        const from = tracetee.view.from, perPixel = span() / (box.width - tracetee.xOf(tracetee.view.from));
        point('pointermove', 1, 260, 100);
        const dragged = (from - tracetee.view.from) / perPixel;
        point('pointerup', 1, 260, 100);
        // A tap on the first frame selects it.
        key('Escape'); key('0'); tracetee.draw();
        const row = tracetee.rows().find((row) => row.kind === 'frames');
        const x = tracetee.xOf(2_500), y = tracetee.yOf(row) + 8;
        point('pointerdown', 3, x, y); point('pointerup', 3, x, y);
        const tapped = tracetee.frame()?.dur;
        key('n');
        return { selected, wide, pinched, moved, dragged, tapped, next: tracetee.frame()?.dur };",
    );
    assert_eq!(result["selected"], 50_000, "{result}");
    assert!(result["wide"].as_u64().unwrap() <= 360, "{result}");
    let number = |name: &str| result[name].as_f64().unwrap_or_else(|| panic!("{result}"));
    assert!((number("pinched") - 0.5).abs() < 0.01 && number("moved").abs() < 300.0, "{result}");
    assert!((number("dragged") - 100.0).abs() < 1.0, "{result}");
    assert_eq!((&result["tapped"], &result["next"]), (&5_000.into(), &50_000.into()), "{result}");
}

#[test]
fn a_report_explains_its_worst_frame_and_opens_its_timeline_there() {
    let Some(chromium) = chromium() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("in.ftrace"), trace()).unwrap();
    let _ = run_tool(path, &["report", "in.ftrace", "--format", "html", "-o", "report.html"]);
    let report = std::fs::read_to_string(path.join("report.html")).unwrap();

    // The timeline in it is a page with the trace's text.
    let data = report.split("type=\"application/json\">").nth(1).unwrap();
    let data: Value = serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
    let packed = STANDARD.decode(data["timeline"]["gzip_base64"].as_str().unwrap()).unwrap();
    let mut timeline = String::new();
    let _ = flate2::read::GzDecoder::new(&*packed).read_to_string(&mut timeline).unwrap();
    assert!(
        timeline.contains("tracing_mark_write: B|100|load") && timeline.contains("sched_waking")
    );
    assert!(timeline.contains("\"why\":{"));

    // A stand-in for the browser's new window: a script's click opens none.
    let script = "<script>
        const other = {};
        window.open = () => other;
        const frame = document.querySelector('details');
        frame.open = true;
        const lanes = [...frame.querySelectorAll('.lane')].map((lane) => lane.innerText);
        const deadline = frame.querySelector('.deadline').style.insetInlineStart;
        const bars = [...frame.querySelectorAll('.bar')];
        const covered = bars.reduce((sum, bar) => sum + parseFloat(bar.style.width), 0);
        const longest = bars.reduce((a, b) => parseFloat(b.style.width) > parseFloat(a.style.width) ? b : a).title;
        const text = frame.innerText;
        const causes = [...document.querySelectorAll('table')][0].innerText;
        const unknown = document.getElementById('unknown').innerText;
        const page = document.body.innerText;
        [...frame.querySelectorAll('button')].find((button) => button.textContent.includes('at this frame')).click();
        const wait = setInterval(() => {
            if (!other.location) return;
            clearInterval(wait);
            document.title = JSON.stringify({ lanes, deadline, covered, longest, text, causes, unknown, page, opened: other.location });
        }, 50);</script></body>";
    std::fs::write(path.join("driven.html"), report.replace("</body>", script)).unwrap();
    let dom = rendered(&chromium, &format!("file://{}", path.join("driven.html").display()));
    let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next()).unwrap();
    let result: Value = serde_json::from_str(title).unwrap_or_else(|_| panic!("{title}"));
    assert_eq!(result["lanes"], serde_json::json!(["com.example", "worker"]), "{result}");
    // 16.666667 of 50 ms.
    assert_eq!(result["deadline"], "33.333%", "{result}");
    assert!((result["covered"].as_f64().unwrap() - 100.0).abs() < 0.1, "{result}");
    assert!(result["longest"].as_str().unwrap().contains("30.0 ms"), "{result}");
    let text = result["text"].as_str().unwrap();
    assert!(
        text.contains("wait")
            && text.contains("woken by worker")
            && text.contains("asleep 30.0 ms"),
        "{text}"
    );
    // All causes have overruns and states; the page lists the same open questions as the text, and no others.
    let causes = result["causes"].as_str().unwrap();
    assert!(causes.contains("overrun") && causes.contains("asleep 30.0 ms"), "{causes}");
    let (as_text, _) = run_tool(path, &["report", "in.ftrace"]);
    let (_, listed) = as_text.split_once("events to switch on):\n").unwrap();
    // A long line continues in the next one, deeper.
    let listed = listed.replace("\n      ", " ");
    let listed: Vec<_> = listed.lines().map_while(|line| line.strip_prefix("  ")).collect();
    let unknown: Vec<_> = result["unknown"].as_str().unwrap().lines().collect();
    assert_eq!(unknown, listed);
    assert!(listed.len() > 1 && !listed.iter().any(|line| line.contains("sched_switch")));
    let page = result["page"].as_str().unwrap();
    assert!(!page.contains("without scheduler"), "{page}");
    let opened = result["opened"].as_str().unwrap();
    assert!(opened.starts_with("blob:") && opened.ends_with("#t=5.200004000"), "{opened}");
}
