//! `tracetee convert` as people use it: kinds by name, mappings, several inputs, what it says.

use std::io::Write;
use std::path::Path;
use tracetee_tests::tools::phone_trace;
use tracetee_tests_convert::{frames, refused, run_tool};
use tracetee_trace::read_file;

fn write(directory: &Path, name: &str, text: &str) {
    std::fs::write(directory.join(name), text).unwrap();
}

#[test]
fn kinds_are_guessed_from_names_and_packed_as_they_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write(path, "in.ftrace", &frames(5));
    let first = read_file(&path.join("in.ftrace")).unwrap();
    for name in [
        "a.ftrace",
        "a.txt",
        "a.systrace",
        "a.ftrace.gz",
        "a.ftrace.zst",
        "a.atrace",
        "a.html",
        "a.json",
        "a.json.gz",
        "a.dart.json",
    ] {
        let _ = run_tool(path, &["convert", "in.ftrace", "-o", name]);
        let again = read_file(&path.join(name)).unwrap();
        assert_eq!(again.slice_count(), first.slice_count(), "{name}");
        assert_eq!(again.losses.bad_lines, 0, "{name}");
    }
    let begins = |name: &str, with: &[u8]| {
        let bytes = std::fs::read(path.join(name)).unwrap();
        assert!(bytes.starts_with(with), "{name}");
    };
    for name in ["a.perfetto-trace", "a.pftrace", "a.trace", "a.pb"] {
        let _ = run_tool(path, &["convert", "in.ftrace", "-o", name]);
    }
    // Perfetto's protobuf is read like the others, compressed too.
    for (name, from) in
        [("b.ftrace", "a.pftrace"), ("b.pftrace.gz", "a.pftrace"), ("b.json", "b.pftrace.gz")]
    {
        let _ = run_tool(path, &["convert", from, "-o", name]);
        let again = read_file(&path.join(name)).unwrap();
        assert_eq!(again.slice_count(), first.slice_count(), "{name}");
        assert_eq!(again.counters.len(), first.counters.len(), "{name}");
    }
    begins("a.trace", b"*version\n2\n");
    begins("a.pftrace", b"\x0a");
    begins("a.atrace", b"TRACE:\n# tracer: nop\n");
    begins("a.ftrace.gz", b"\x1f\x8b");
    let pprof = String::from_utf8_lossy(&std::fs::read(path.join("a.pb")).unwrap()).into_owned();
    for name in ["com.example", "Choreographer#doFrame 0", "a.b.c"] {
        assert!(pprof.contains(name), "{name}: {pprof}");
    }
    let _ = run_tool(path, &["convert", "in.ftrace", "-o", "a.z", "--to", "atrace", "-z"]);
    begins("a.z", b"TRACE:\n\x78");
    assert_eq!(read_file(&path.join("a.z")).unwrap().threads, first.threads);
    let (text, _) = run_tool(path, &["convert", "in.ftrace", "-o", "-", "--to", "ftrace"]);
    assert!(text.starts_with("# tracer: nop\n"));

    let said = refused(path, &["convert", "in.ftrace", "-o", "a.xyz"]);
    assert!(said.contains("cannot infer the output format from \"a.xyz\"\n"), "{said}");
    assert!(said.contains("hint: pass --to, or use one of these endings"), "{said}");
    let said = refused(path, &["convert", "in.ftrace", "-o", "a.json", "-z"]);
    assert!(said.contains("-z needs --to atrace"), "{said}");
    let said = refused(path, &["convert", "nothing.ftrace", "-o", "b.json"]);
    assert!(said.contains("nothing.ftrace cannot be read: No such file"), "{said}");
    let said = refused(path, &["convert", "in.ftrace", "-o", "no/where.json"]);
    assert!(said.contains("cannot write no/where.json"), "{said}");
}

#[test]
fn content_that_a_format_cannot_represent_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write(path, "in.ftrace", &frames(5));
    let (_, said) = run_tool(path, &["convert", "in.ftrace", "-o", "a.trace"]);
    assert_eq!(
        said,
        "tracetee: dropped (not representable in traceview): 10 async slices, 5 counter values, 5 instants\n"
    );
    let (_, said) = run_tool(path, &["convert", "in.ftrace", "-o", "a.trace", "-q"]);
    assert_eq!(said, "");
    let switch = " x-1 (1) [000] d..2 9.000000: sched_switch: prev_comm=x\n";
    write(path, "kernel.ftrace", &(frames(5) + switch + switch));
    let (_, said) = run_tool(path, &["convert", "kernel.ftrace", "-o", "a.json"]);
    assert!(
        said.contains("kernel.ftrace: events other than app markers: 2 sched_switch\n"),
        "{said}"
    );
    assert!(said.contains("2 kernel events"), "{said}");
    write(
        path,
        "cut.ftrace",
        &frames(5).replacen("E|100", "nothing", 1).replacen(": tracing_mark", " tracing mark", 1),
    );
    let (_, said) = run_tool(path, &["convert", "cut.ftrace", "-o", "a.json"]);
    assert!(said.contains("cut.ftrace: 1 lines could not be parsed:\ntracetee:   5: "), "{said}");
    assert!(said.contains("cut.ftrace: 1 sections without an end"), "{said}");
}

#[test]
fn a_file_with_nothing_of_the_wanted_kind_is_refused_and_leaves_no_empty_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let line = |payload| format!(" x-1 (1) [000] d..2 9.000000: {payload}\n");
    write(path, "counter.ftrace", &line("tracing_mark_write: C|1|heap|5"));
    write(path, "kernel.ftrace", &line("cpu_idle: state=1 cpu_id=0"));
    write(path, "bare.ftrace", "# tracer: nop\n# tracetee: {\"pid\":1,\"app\":\"com.example\"}\n");
    write(path, "dump.txt", "PROCESS DUMP\nUSER PID PPID NAME\nu0 1 0 com.example\n");
    let no_slices = "contains nothing that";
    for (input, output, expected) in [
        ("counter.ftrace", "o.pb", no_slices),
        ("counter.ftrace", "o.trace", no_slices),
        (
            "kernel.ftrace",
            "o.json",
            "contains nothing that chrome can represent (slices, async slices, instants, counter values, flow points)",
        ),
        ("bare.ftrace", "o.pftrace", "contains nothing that perfetto can represent"),
        ("bare.ftrace", "o.dart.json", "contains nothing that dart can represent"),
        ("dump.txt", "o.ftrace", "dump.txt: contains no events"),
        ("dump.txt", "o.html", "contains nothing that html can represent"),
    ] {
        let said = refused(path, &["convert", input, "-o", output]);
        assert!(said.contains(expected) && said.contains(input), "{input} {output}: {said}");
        assert!(!path.join(output).exists(), "{input} {output}");
    }
    let said = refused(path, &["dmtracedump", "counter.ftrace"]);
    assert!(said.contains("counter.ftrace: contains no thread slices"), "{said}");
    // A trace without slices is written as well.
    for (input, output) in [
        ("counter.ftrace", "o.json"),
        ("kernel.ftrace", "o.pftrace"),
        ("kernel.ftrace", "o.html"),
        ("bare.ftrace", "o.ftrace"),
        ("bare.ftrace", "o.html"),
    ] {
        let _ = run_tool(path, &["convert", input, "-o", output]);
    }
}

#[test]
fn a_page_s_data_may_end_on_the_line_of_its_last_brace() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let event = " x-1 (1) [000] ...1 9.000000: tracing_mark_write: B|1|a\n";
    let tag = "  <script class=\"trace-data\" type=\"application/text\">\n";
    // As systrace writes what its other agents have said.
    let page = format!(
        "<!DOCTYPE html>\n<html>\n{tag}{{\"metadata\": {{\n\"clock-domain\": \"SYSTRACE\"\n}}}}  </script>\n\
         {tag}# tracer: nop\n{event}  </script>\n{tag}{{\"x\": {{}}}}  </script>\n</body>\n</html>\n"
    );
    write(path, "page.html", &page);
    let (text, said) = run_tool(path, &["convert", "page.html", "-o", "-", "--to", "ftrace"]);
    assert!(text.ends_with("tracing_mark_write: B|1|a\n") && said.is_empty(), "{said}{text}");
    let (_, said) = run_tool(path, &["convert", "page.html", "-o", "o.json"]);
    assert!(!said.contains("could not be parsed"), "{said}");
}

#[test]
fn zstd_output_names_the_perfetto_that_reads_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write(path, "in.ftrace", &frames(5));
    let (_, said) = run_tool(path, &["convert", "in.ftrace", "-o", "o.ftrace.zst"]);
    assert!(
        said.contains("o.ftrace.zst: Perfetto reads .zst since v58; all versions read .gz"),
        "{said}"
    );
    let (_, said) = run_tool(path, &["convert", "in.ftrace", "-o", "o.ftrace.gz"]);
    assert_eq!(said, "");
}

#[test]
fn names_come_back_by_mappings_in_every_command() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write(path, "mapping.txt", "com.example.Feed -> a.b:\n    1:5:void bind(int):10:14 -> c\n");
    write(
        path,
        "methods.txt",
        "1,1,com.example.Feed bind (I)V\n22,4098,com.example.Feed <init> ()V\n",
    );
    write(path, "in.ftrace", &frames(20));
    write(path, "ids.ftrace", &frames(20).replace("a.b.c", "22"));
    for (input, mapping, expected) in [
        ("in.ftrace", "mapping.txt", "com.example.Feed.bind"),
        ("ids.ftrace", "methods.txt", "com.example.Feed.<init>"),
    ] {
        let (json, _) =
            run_tool(path, &["convert", input, "-o", "-", "--to", "chrome", "--mapping", mapping]);
        assert!(json.contains(expected) && !json.contains("a.b.c"), "{json}");
        let (text, _) =
            run_tool(path, &["convert", input, "-o", "-", "--to", "ftrace", "--mapping", mapping]);
        assert!(text.contains(&format!("B|100|{expected}\n")), "{text}");
        let (report, _) = run_tool(path, &["dmtracedump", "--mapping", mapping, input]);
        assert!(report.contains(expected), "{report}");
        let (report, _) = run_tool(path, &["report", "--mapping", mapping, input]);
        assert!(report.contains(expected), "{report}");
    }
    let (json, _) = run_tool(
        path,
        &["convert", "ids.ftrace", "-o", "-", "--to", "chrome", "--mapping", "mapping.txt"],
    );
    assert!(json.contains("\"22\""), "a name that the mapping does not know stays: {json}");
    let said = refused(path, &["convert", "in.ftrace", "-o", "x.json", "--mapping", "in.ftrace"]);
    assert!(said.contains("in.ftrace: line 5 is not a line of R8 or Matrix"), "{said}");
}

#[test]
fn several_captures_are_reported_as_a_fleet_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write(path, "one.ftrace", &frames(20));
    write(path, "two.ftrace", &frames(30));
    write(path, "none.ftrace", "nonsense\n");
    let (report, said) = run_tool(path, &["report", "one.ftrace", "two.ftrace", "none.ftrace"]);
    assert!(said.contains("skipped: none.ftrace is not a trace: line 1"), "{said}");
    let row = |line: &&str| line.starts_with("  section ") && line.contains("a.b.c");
    let counts = report.lines().find(row).unwrap().split_whitespace();
    // Devices, captures, frames.
    assert_eq!(counts.skip(2).take(3).collect::<Vec<_>>(), ["1", "2", "5"], "{report}");
    let (json, _) = run_tool(path, &["report", "one.ftrace", "two.ftrace", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["apps"][0]["versions"][0]["captures"], 2, "{json}");
}

#[test]
fn a_report_has_the_format_that_the_name_of_its_file_says() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write(path, "one.ftrace", &frames(20));
    let written = |name: &str, more: &[&str]| {
        let (printed, _) = run_tool(path, &[&["report", "one.ftrace", "-o", name], more].concat());
        assert_eq!(printed, "");
        std::fs::read_to_string(path.join(name)).unwrap()
    };
    assert!(written("one.html", &[]).starts_with("<!DOCTYPE html>"));
    serde_json::from_str::<serde_json::Value>(&written("one.json", &[])).unwrap();
    assert!(written("one.md", &[]).starts_with("~~~~~~text"));
    let text = run_tool(path, &["report", "one.ftrace"]).0;
    assert_eq!(written("text.html", &["--format", "text"]), text);
    assert_eq!(written("one.txt", &[]), text);
    // Packed as the name ends; - is stdout.
    let _ = run_tool(path, &["report", "one.ftrace", "-o", "one.md.zst"]);
    let packed = std::fs::read(path.join("one.md.zst")).unwrap();
    assert!(zstd::decode_all(&*packed).unwrap().starts_with(b"~~~~~~text"));
    assert_eq!(run_tool(path, &["report", "one.ftrace", "-o", "-"]).0, text);
    assert!(!path.join("-").exists());
}

#[test]
fn traces_of_real_phones_go_through_every_format_that_holds_slices() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for name in [
        "list-jank.ftrace.txt.gz",
        "flutter-app.ftrace.txt.gz",
        "atrace-small.z",
        "art-streaming.trace.gz",
    ] {
        let Some(input) = phone_trace(name) else { continue };
        let input = input.to_str().unwrap().to_owned();
        let first = read_file(Path::new(&input)).unwrap();
        for output in ["x.ftrace", "x.json", "x.dart.json", "x.html", "x.trace"] {
            let _ = run_tool(path, &["convert", &input, "-o", output]);
            let again = read_file(&path.join(output)).unwrap();
            assert_eq!(again.slice_count(), first.slice_count(), "{name} {output}");
            assert_eq!(again.losses.bad_lines, 0, "{name} {output}: {:?}", again.losses.shown);
        }
    }
    // Text stays whole: each event is there, and processes from the dump are filled in.
    let Some(text) = phone_trace("flutter-app.ftrace.txt.gz") else { return };
    let Some(dump) = phone_trace("flutter-app.ps.txt.gz") else { return };
    let (input, dump) = (text.to_str().unwrap(), dump.to_str().unwrap());
    let _ = run_tool(path, &["convert", input, dump, "-o", "x.ftrace"]);
    let (first, again) = (read_file(&text).unwrap(), read_file(&path.join("x.ftrace")).unwrap());
    assert_eq!(again.kernel_events, first.kernel_events);
    assert_eq!(again.counters.len(), first.counters.len());
    let unknown = |trace: &tracetee_trace::Trace| {
        trace.threads.values().filter(|thread| thread.pid.is_none()).count()
    };
    assert!(unknown(&again) < unknown(&first) / 10, "{} {}", unknown(&again), unknown(&first));
}

/// Runs `tracetee` with these bytes on stdin; what it wrote to stdout.
fn piped(directory: &Path, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = std::process::Command::new(tracetee_tests::tracetee())
        .current_dir(directory)
        .args(arguments)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    output.stdout
}

#[test]
fn every_command_that_takes_a_trace_takes_perfetto_s_from_stdin_and_compressed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write(path, "in.ftrace", &frames(20));
    let _ = run_tool(path, &["convert", "in.ftrace", "-o", "in.pftrace"]);
    let plain = std::fs::read(path.join("in.pftrace")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    let gzip = gzip.finish().unwrap();
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    zlib.write_all(&plain).unwrap();
    let zlib = [&b"TRACE:\n"[..], &zlib.finish().unwrap()].concat();
    let zstd = zstd::bulk::compress(&plain, 1).unwrap();
    for arguments in [
        &["report", "-"][..],
        &["report", "-", "--pid", "100", "--format", "json"],
        &["dmtracedump", "-"],
        &["convert", "-", "-o", "-", "--to", "chrome"],
        &["convert", "-", "-o", "-", "--to", "atrace", "-z"],
        &["convert", "-", "-o", "-", "--to", "html"],
    ] {
        // A page has its input's name as its title.
        let expected = piped(path, arguments, &plain);
        assert!(!expected.is_empty(), "{arguments:?}");
        for packed in [&gzip, &zlib, &zstd] {
            assert!(piped(path, arguments, packed) == expected, "{arguments:?}");
        }
        let of_file: Vec<&str> = arguments
            .iter()
            .map(|&argument| if argument == "-" { "in.pftrace" } else { argument })
            .collect();
        if arguments[0] != "convert" {
            let of_file = tracetee_tests_convert::tool_output(path, &of_file);
            assert!(of_file.stdout == expected, "{arguments:?}");
        }
    }
    let said = refused(path, &["convert", "-", "-", "-o", "x.json"]);
    assert!(said.contains("stdin (-) is given twice"), "{said}");
}

#[test]
fn an_input_that_is_a_fifo_is_read_once_and_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    // More than a pipe holds, and than one read of it gives.
    write(path, "in.ftrace", &frames(2_000));
    let expected = std::fs::read(path.join("in.ftrace")).unwrap();
    let tool = tracetee_tests::tracetee();
    let run = |line: &str| {
        let mut command = std::process::Command::new("bash");
        let output = command.args(["-c", line]).env("T", tool).current_dir(path).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        output.stdout
    };
    let _ = run("timeout 60 $T convert <(cat in.ftrace) -o out.ftrace");
    assert!(std::fs::read(path.join("out.ftrace")).unwrap() == expected);
    let fifo = "mkfifo fifo && { cat in.ftrace > fifo & timeout 60 $T report fifo --format json; }";
    assert!(run(fifo) == run("$T report in.ftrace --format json"));
    assert!(
        run("timeout 60 $T dmtracedump <(cat in.ftrace) -d <(cat in.ftrace)")
            == run("$T dmtracedump in.ftrace -d in.ftrace")
    );
}
