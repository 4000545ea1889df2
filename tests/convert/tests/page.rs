//! The page in a real browser: a million slices, zoom by key, search, what a selection says; hostile names.

use std::path::Path;
use std::process::Command;
use tracetee_tests::root;
use tracetee_tests::tools::{chromium, phone_trace, rendered};
use tracetee_tests_convert::{Random, driven, frames, run_tool};

const LOOK: &str = "
    const before = tracetee.view.to - tracetee.view.from;
    key('w'); key('w');
    const zoomed = tracetee.view.to - tracetee.view.from;
    const from = tracetee.view.from;
    key('d');
    const right = tracetee.view.from - from;
    const search = page.getElementById('search');
    search.value = 'needle';
    search.dispatchEvent(new window.Event('input'));
    const found = page.getElementById('found').textContent;
    tracetee.step(1);
    const panel = page.getElementById('panel').innerText;
    key('Escape'); key('0');
    const status = page.getElementById('status').textContent;
    const rows = [...page.querySelectorAll('#profile tbody tr')].slice(0, 3).map((row) => row.innerText);
    return { before, zoomed, right, found, panel, status, rows, all: tracetee.view.to - tracetee.view.from };";

/// Compares the statements of a script with those of its sources, as the parser in node reads them.
const SAME_STATEMENTS: &str = r#"
const { parse } = require("internal/deps/acorn/acorn/dist/acorn"), { readFileSync } = require("node:fs");
const [script, ...sources] = process.argv.slice(1);
const statements = (path) => parse(readFileSync(path, "utf8"), { ecmaVersion: "latest" }).body;
const said = (one) => JSON.stringify(one, (key, value) => (["start", "end", "raw"].includes(key) ? undefined : value));
const made = statements(script)[1].expression.callee.body.body.map(said).sort();
const meant = sources.flatMap(statements).map(said).sort();
if (made.length !== meant.length || !meant.length) throw new Error(`${made.length} statements of ${meant.length}`);
meant.forEach((one, i) => { if (one !== made[i]) throw new Error(`${one}\n${made[i]}`); });
"#;

#[test]
fn the_page_s_script_says_what_its_sources_say() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script.js");
    std::fs::write(&script, &*tracetee_convert::PAGE_SCRIPT).unwrap();
    let sources = std::fs::read_dir(root().join("collector/convert/web/timeline")).unwrap();
    let output = Command::new("node")
        .args(["--expose-internals", "-e", SAME_STATEMENTS])
        .arg(&script)
        .args(sources.map(|file| file.unwrap().path()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_million_slices_are_shown_searched_and_described() {
    let Some(chromium) = chromium() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    // Forty threads; a slice of 123 µs with 23 in a child, that is looked for.
    let (mut random, mut text, mut at) =
        (Random(1), String::from("# tracer: nop\n"), 1_000_000_000_u64);
    let mut depths = [0; 40];
    let mut line = |thread: usize, at: u64, payload: &str| {
        use std::fmt::Write;
        let tid = 100 + thread;
        let (seconds, us) = (at / 1_000_000, at % 1_000_000);
        writeln!(
            text,
            "t{thread}-{tid} (100) [000] ...1 {seconds}.{us:06}: tracing_mark_write: {payload}"
        )
        .unwrap();
    };
    let mut count = 0;
    while count < 1_000_000 {
        let thread = usize::try_from(random.below(40)).unwrap();
        at += 1 + random.below(20);
        if depths[thread] > 0 && (depths[thread] > 8 || random.below(2) == 0) {
            depths[thread] -= 1;
            line(thread, at, "E|100");
        } else {
            depths[thread] += 1;
            count += 1;
            line(thread, at, &format!("B|100|work {}", random.below(50)));
        }
        if count == 500_000 {
            count += 2;
            line(39, at, "B|100|needle");
            line(39, at + 50, "B|100|inner");
            line(39, at + 73, "E|100");
            line(39, at + 123, "E|100");
            at += 123;
        }
    }
    std::fs::write(path.join("million.ftrace"), text).unwrap();
    let _ = run_tool(path, &["convert", "million.ftrace", "-o", "million.html"]);
    let result = driven(&chromium, &path.join("million.html"), LOOK);
    let status = result["status"].as_str().unwrap();
    assert!(status.starts_with(&format!("{count} slices on 40 threads")), "{result}");
    let number = |name: &str| result[name].as_f64().unwrap();
    assert!((number("zoomed") / number("before") - 0.49).abs() < 1e-6, "{result}");
    assert!(number("right") > 0.0 && (number("all") - number("before")).abs() < 1.0, "{result}");
    assert_eq!(result["found"], "1 found");
    let panel = result["panel"].as_str().unwrap();
    assert!(panel.contains("Wall 123 µs, self 100 µs"), "{panel}");
    assert!(panel.contains("In it: 2 names") && panel.contains("inner\t23 µs"), "{panel}");
}

#[test]
fn frames_counters_async_tracks_and_the_profile_are_there_and_nothing_from_elsewhere() {
    let Some(chromium) = chromium() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("frames.ftrace"), frames(60)).unwrap();
    let _ = run_tool(path, &["convert", "frames.ftrace", "-o", "frames.html"]);
    let result = driven(
        &chromium,
        &path.join("frames.html"),
        "const rows = tracetee.rows().map((row) => [row.kind, row.title]);
        const profile = [...page.querySelectorAll('#profile tbody tr')].map((row) => row.innerText);
        page.querySelector('#profile td button').click();
        const relatives = page.getElementById('relatives').innerText;
        const marks = tracetee.rows().find((row) => row.kind === 'frames');
        const view = page.getElementById('canvas').getContext('2d');
        // The colour at the place of the first janky frame (the fourth, 60 ms).
        tracetee.draw();
        const at = Math.round(tracetee.xOf(80_000));
        const pixel = [...view.getImageData(at, tracetee.yOf(marks) + 8, 1, 1).data];
        return { at, pixel, rows, profile, relatives, status: page.getElementById('status').textContent };",
    );
    let rows = result["rows"].to_string();
    for row in [
        r#"["process","com.example 100"]"#,
        r#"["frames","Frames"]"#,
        r#"["async","load"]"#,
        r#"["async","net"]"#,
        r#"["thread","com.example 100"]"#,
        r#"["thread","RenderThread 101"]"#,
        r#"["counter","heap size"]"#,
    ] {
        assert!(rows.contains(row), "{row}: {rows}");
    }
    assert!(result["status"].as_str().unwrap().contains("60 frames"), "{result}");
    // Jank is orange, what is in time green.
    assert_eq!(result["pixel"], serde_json::json!([0xfb, 0x8c, 0, 255]), "{result}");
    // Traceview's profile: 60 calls, the longest 60 ms.
    assert!(result["profile"][0].as_str().unwrap().contains("\t60+0\t"), "{result}");
    let relatives = result["relatives"].as_str().unwrap();
    assert!(relatives.contains("Parents") && relatives.contains("Children"), "{relatives}");

    let page = std::fs::read_to_string(path.join("frames.html")).unwrap();
    for reference in [
        " src=",
        " href=",
        "@import",
        "url(h",
        "url(\"",
        "fetch(",
        "XMLHttpRequest",
        "import(",
        "://",
    ] {
        assert!(!page.contains(reference), "{reference}");
    }
    // Perfetto and catapult find the text where systrace has it.
    assert!(
        page.contains(
            "\n  <script class=\"trace-data\" type=\"application/text\">\nPROCESS DUMP\n"
        )
    );
    assert!(
        page.contains(
            "\n  <script class=\"trace-data\" type=\"application/text\">\n# tracer: nop\n"
        )
    );
    // And so do we.
    let again = tracetee_trace::read_file(&path.join("frames.html")).unwrap();
    let first = tracetee_trace::read_file(&path.join("frames.ftrace")).unwrap();
    let rows = |trace: &tracetee_trace::Trace| -> Vec<_> {
        let slices = trace.threads.values().flat_map(|thread| &thread.slices);
        slices
            .map(|slice| (trace.names.text(slice.name).to_owned(), slice.start_ns, slice.end_ns))
            .collect()
    };
    assert_eq!((rows(&again), again.losses.bad_lines), (rows(&first), 0));
}

#[test]
fn methods_of_a_method_trace_are_coloured_round_robin_by_inclusive_time() {
    let Some(chromium) = chromium() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    // `m0` contains all others and has no time of its own. The others are not in the order of their times.
    let mut text = "# tracer: nop\n".to_owned();
    let mut line = |us: u64, payload: &str| {
        text.push_str(&format!("main-7 (7) [000] ...1 1.{us:06}: tracing_mark_write: {payload}\n"));
    };
    let mut at = 0;
    line(at, "B|7|m0");
    for place in 0..30 {
        let rank = 1 + place * 7 % 30;
        line(at, &format!("B|7|m{rank}"));
        at += 4_000 - 100 * rank;
        line(at, "E|7");
    }
    line(at, "E|7");
    std::fs::write(path.join("in.ftrace"), text).unwrap();
    let _ = run_tool(path, &["convert", "in.ftrace", "-o", "methods.trace"]);
    let colours = |input: &str| -> Vec<String> {
        let _ = run_tool(path, &["convert", input, "-o", "methods.html"]);
        let result = driven(
            &chromium,
            &path.join("methods.html"),
            "tracetee.draw();
            const view = page.getElementById('canvas').getContext('2d');
            const row = tracetee.rows().find((row) => row.kind === 'thread'), { slices } = row.thread;
            const colours = [];
            slices.name.forEach((name, i) => {
                // At the end of the box, below its text.
                const x = Math.round(tracetee.xOf(slices.end[i])) - 3;
                const y = tracetee.yOf(row) + row.strip + slices.depth[i] * 18 + 14;
                colours[+tracetee.names[name].slice(1)] = String([...view.getImageData(x, y, 1, 1).data]);
            });
            return colours;",
        );
        serde_json::from_value(result).unwrap()
    };
    let of_methods = colours("methods.trace");
    let first: std::collections::BTreeSet<_> = of_methods[..24].iter().collect();
    assert_eq!((of_methods.len(), first.len()), (31, 24), "{of_methods:?}");
    assert_eq!(of_methods[24..], of_methods[..7]);
    // In other traces a name has its colour wherever it is: numbers do not change it.
    let of_text = colours("in.ftrace");
    assert!(of_text.iter().all(|colour| *colour == of_text[0]), "{of_text:?}");
}

#[test]
fn numbers_of_a_method_profile_s_page_stay_on_one_line_on_a_phone() {
    let Some(chromium) = chromium() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let long = "com.example.".repeat(20);
    std::fs::write(
        path.join("in.ftrace"),
        frames(30).replace("a.b.c", &format!("{long}A.run(I)V")),
    )
    .unwrap();
    let (page, _) = run_tool(path, &["dmtracedump", "-h", "in.ftrace"]);
    let script = "<script>
        const lines = (cell) => {
            const range = document.createRange();
            range.selectNodeContents(cell);
            return range.getClientRects().length;
        };
        const cells = [...document.querySelectorAll('td')];
        const broken = cells.filter((cell) => cell !== cell.parentNode.lastElementChild && lines(cell) > 1);
        const fits = document.documentElement.scrollWidth <= innerWidth;
        document.title = `${cells.length > 50} ${broken.length} ${fits}`;</script></body>";
    std::fs::write(path.join("page.html"), page.replace("</body>", script)).unwrap();
    let dom = rendered(&chromium, &format!("file://{}", path.join("page.html").display()));
    let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    // There are cells, only those of methods have several lines, and nothing reaches out of the window.
    assert_eq!(
        title.map(|title| title.split_whitespace().collect()),
        Some(vec!["true", "0", "true"])
    );
}

#[test]
fn a_report_s_page_and_its_text_round_alike() {
    let Some(chromium) = chromium() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    // Frames of 60.05 ms, 60.06 ms …: each is rounded.
    let mut text = "# tracer: nop\n".to_owned();
    for frame in 0..40 {
        let (at, took) = (5_000_000 + frame * 100_000, 60_050 + frame * 7);
        for (us, payload) in [(at, "B|7|Choreographer#doFrame"), (at + took, "E|7")] {
            text.push_str(&format!(
                "app-7 (7) [000] ...1 {}.{:06}: tracing_mark_write: {payload}\n",
                us / 1_000_000,
                us % 1_000_000
            ));
        }
    }
    std::fs::write(path.join("in.ftrace"), text).unwrap();
    let (report, _) = run_tool(path, &["report", "in.ftrace"]);
    let _ = run_tool(path, &["report", "in.ftrace", "--format", "html", "-o", "report.html"]);
    let dom = rendered(&chromium, &format!("file://{}", path.join("report.html").display()));
    let words: Vec<&str> = report.split_whitespace().collect();
    let durations: std::collections::BTreeSet<String> = words
        .windows(2)
        .filter(|pair| matches!(pair[1].trim_end_matches([',', ';', '.']), "ms" | "s"))
        .map(|pair| {
            format!(
                "{} {}",
                pair[0].trim_start_matches('('),
                pair[1].trim_end_matches([',', ';', '.'])
            )
        })
        .filter(|duration| duration.contains('.'))
        .collect();
    assert!(durations.len() > 5, "{report}");
    let missing: Vec<_> = durations.iter().filter(|duration| !dom.contains(&***duration)).collect();
    assert!(missing.is_empty(), "{missing:?}\n{report}\n{dom}");
}

#[test]
fn hostile_names_are_text() {
    let Some(chromium) = chromium() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let names = [
        "</script><script>document.title='owned'</script>",
        "<!--<script>",
        "<img src=x onerror=document.title='owned'>",
        "\u{2028}${alert(1)}`",
        "__proto__",
    ];
    let mut text = "# tracer: nop\n".to_owned();
    for (number, name) in names.iter().enumerate() {
        let at = number * 10;
        for (us, payload) in [
            (at, format!("B|7|{name}")),
            (at + 1, format!("C|7|{name}|3")),
            (at + 5, "E|7".to_owned()),
        ] {
            text.push_str(&format!(
                "{name}-7 (7) [000] ...1 1.{us:06}: tracing_mark_write: {payload}\n"
            ));
        }
    }
    std::fs::write(path.join("x.ftrace"), text).unwrap();
    let _ = run_tool(path, &["convert", "x.ftrace", "-o", "x.html"]);
    let result = driven(
        &chromium,
        &path.join("x.html"),
        "return { status: page.getElementById('status').textContent, images: page.images.length,
            names: tracetee.names, title: page.title };",
    );
    assert!(result["status"].as_str().unwrap().starts_with("5 slices"), "{result}");
    assert_eq!((&result["images"], &result["title"]), (&0.into(), &"x.ftrace".into()));
    let shown = result["names"].to_string();
    assert!(shown.contains("onerror") && shown.contains("__proto__"), "{result}");
}

#[test]
fn traces_of_real_phones_are_shown_as_they_are_read() {
    let Some(chromium) = chromium() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for (name, dump) in [("list-jank", true), ("flutter-app", true), ("atrace-small", false)] {
        let path_of = |end: &str| {
            phone_trace(&format!("{name}{end}")).map(|path| path.to_str().unwrap().to_owned())
        };
        let Some(main) = path_of(if dump { ".ftrace.txt.gz" } else { ".z" }) else { continue };
        let mut inputs = vec![main.clone()];
        if dump {
            inputs.extend(path_of(".ps.txt.gz"));
        }
        let mut arguments = vec!["convert"];
        arguments.extend(inputs.iter().map(String::as_str));
        arguments.extend(["-o", "x.html"]);
        let _ = run_tool(path, &arguments);
        let result = driven(&chromium, &path.join("x.html"), "
            let slices = 0, unclosed = 0;
            for (const thread of tracetee.threads.values()) slices += thread.slices.name.length;
            return { slices, status: page.getElementById('status').textContent,
                titles: tracetee.rows().filter((row) => row.kind === 'process').map((row) => row.title) };");
        let trace = tracetee_trace::read_file(Path::new(&main)).unwrap();
        assert_eq!(result["slices"].as_u64(), Some(trace.slice_count()), "{name}");
        let status = result["status"].as_str().unwrap();
        for (count, noun) in [
            (trace.losses.unclosed, "slices did not end"),
            (
                trace.losses.unmatched_ends + trace.losses.unmatched_async_ends,
                "ends without a begin",
            ),
        ] {
            assert!(
                count == 0 || status.contains(&format!("{count} {noun}")),
                "{name} {count}: {status}"
            );
        }
        if dump {
            let app = if name == "list-jank" {
                "sample.tencent.matrix 24874"
            } else {
                "com.thl.fluwanandroid 1259"
            };
            assert!(result["titles"].as_array().unwrap().contains(&app.into()), "{result}");
        }
    }
}

/// A slice of thread 2 with a category and arguments, from which a flow goes to a slice of thread 3; an async slice and an
/// instant with arguments.
const CHROME: &str = r#"{"traceEvents":[
    {"ph":"M","name":"thread_name","pid":1,"tid":3,"args":{"name":"worker"}},
    {"ph":"X","name":"send","cat":"net","pid":1,"tid":2,"ts":1000,"dur":500,"tts":40,"tdur":30,"args":{"size":[1,2],"url":"x/</script>"}},
    {"ph":"s","name":"call","cat":"net","id":5,"pid":1,"tid":2,"ts":1100},
    {"ph":"X","name":"receive","cat":"ipc","pid":1,"tid":3,"ts":2000,"dur":100},
    {"ph":"f","bp":"e","name":"call","cat":"net","id":5,"pid":1,"tid":3,"ts":2050},
    {"ph":"b","name":"load","cat":"io","id":"0x7","pid":1,"tid":2,"ts":1000,"args":{"file":"a.db"}},
    {"ph":"e","name":"load","cat":"io","id":"0x7","pid":1,"tid":2,"ts":2500},
    {"ph":"i","s":"t","name":"mark","cat":"ui","pid":1,"tid":2,"ts":2900,"args":{"why":"late"}}]}"#;

#[test]
fn a_page_shows_arguments_flows_and_categories_of_a_chrome_and_of_a_perfetto_trace() {
    let Some(chromium) = chromium() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("a.json"), CHROME).unwrap();
    let _ = run_tool(path, &["convert", "a.json", "-o", "a.pftrace"]);
    for input in ["a.json", "a.pftrace"] {
        let (_, said) = run_tool(path, &["convert", input, "-o", "a.html"]);
        for content in ["arguments", "categories", "flow"] {
            assert!(!said.contains(content), "{input}: {said}");
        }
        let result = driven(
            &chromium,
            &path.join("a.html"),
            "const panel = () => page.getElementById('panel').innerText.replace(/\\s+/g, ' ');
            const search = page.getElementById('search');
            const find = (text) => { search.value = text; search.dispatchEvent(new window.Event('input')); tracetee.step(1); };
            find('a.db/none');
            const nothing = page.getElementById('found').textContent;
            // By an argument.
            find('x/</scr');
            const send = panel();
            [...page.querySelectorAll('#panel button')].find((button) => button.textContent === 'receive').click();
            const receive = panel();
            const selected = tracetee.selected().thread.name;
            tracetee.whole(); tracetee.draw();
            const tip = (kind, at, down) => {
                const row = tracetee.rows().find((row) => row.kind === kind);
                const box = page.getElementById('canvas').getBoundingClientRect();
                const [x, y] = [box.left + tracetee.xOf(at), box.top + tracetee.yOf(row) + down];
                page.getElementById('canvas').dispatchEvent(new window.PointerEvent('pointermove', { clientX: x, clientY: y, bubbles: true, pointerType: 'mouse' }));
                return page.getElementById('tip').textContent.replace(/\\s+/g, ' ');
            };
            return { nothing, send, receive, selected, slice: tip('async', 700, 5), mark: tip('thread', 1900, 2) };",
        );
        let shown =
            |name: &str| result[name].as_str().unwrap_or_else(|| panic!("{input}: {result}"));
        assert_eq!(shown("nothing"), "0 found");
        let send = shown("send");
        for part in [
            "Category: net",
            "Thread time: 30 µs",
            r#"Arguments: { "size": [ 1, 2 ], "url": "x/</script>" }"#,
            "Flows to",
            "worker 3",
        ] {
            assert!(send.contains(part), "{input}: {part}: {send}");
        }
        let receive = shown("receive");
        assert!(receive.contains("Category: ipc") && receive.contains("Flows from"), "{receive}");
        assert!(receive.contains("send") && !receive.contains("Arguments"), "{receive}");
        assert_eq!(shown("selected"), "worker");
        let slice = shown("slice");
        assert!(slice.contains("load") && slice.contains("Category: io"), "{input}: {slice}");
        assert!(slice.contains(r#"{ "file": "a.db" }"#), "{input}: {slice}");
        let mark = shown("mark");
        assert!(mark.contains("mark") && mark.contains(r#"{ "why": "late" }"#), "{input}: {mark}");
    }
}
