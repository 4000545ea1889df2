//! Names, by Perfetto's own trace_processor: those of threads, from a process dump and from the scheduler, and those of the items
//! of the battery's history.

use std::collections::HashSet;
use std::fmt::Write as _;
use tracetee_tests::tools::phone_trace;
use tracetee_tests_convert::Engine;
use tracetee_tests_convert::rows::{converted, tids};

/// NetEase's on-device systrace writes spaces around the thread's dash, no process, and a name behind the process of an end.
/// Viewers reject it, what is made of it has its rows.
#[test]
fn lines_of_netease_s_systrace_are_read() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let line = |thread: &str, at: &str, payload: &str| {
        format!("{thread} [000] ...1 {at}: tracing_mark_write: {payload}\n")
    };
    let text = line("main - 990", "5001.000002", "B|990|1042")
        + &line("OkHttp a-b.com - 1057", "5001.000010", "B|990|2017")
        + &line("OkHttp a-b.com - 1057", "5001.000900", "E|990|2017")
        + &line("main - 990", "5001.016002", "E|990|1042");
    std::fs::write(path.join("in.txt"), text).unwrap();
    assert!(engine.read(path, &["in.txt"])[0].error.is_some(), "Perfetto reads it, too");
    for output in ["o.ftrace", "o.html", "o.pftrace", "o.json"] {
        let said = converted(path, &["in.txt"], output);
        let read = engine.whole(path, output);
        let slices = [
            r#"[990,990,5001000002,5001016002,"1042",0]"#,
            r#"[990,1057,5001000010,5001000900,"2017",0]"#,
        ];
        assert_eq!(read.slices, slices, "{output}: {said}");
        let threads = [r#"[990,990,"main"]"#, r#"[1057,990,"OkHttp a-b.com"]"#];
        assert_eq!(read.threads, threads, "{output}");
    }
}

#[test]
fn names_of_a_process_dump_and_of_the_scheduler_are_those_of_threads() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let dump = "PROCESS DUMP\n\
        USER            PID   PPID     VSZ    RSS WCHAN  PC S NAME                        COMM\n\
        u0_a1           990      1 2199108   4424 0       0 S com.example.app             [com.example.app]\n\
        USER            PID   TID CMD\n\
        u0_a1           990   990 com.example.app\n\
        u0_a1           990  1057 RenderThread\n\
        u0_a1           990  1058 never runs\n";
    let events = "# tracer: nop\n#\n#           TASK-PID    TGID   CPU#  ||||    TIMESTAMP  FUNCTION\n\
        \u{20}          <...>-1057  (  990) [002] .... 2.000010: tracing_mark_write: B|990|DrawFrame\n\
        \u{20}          <...>-1057  (  990) [002] .... 2.000900: tracing_mark_write: E|990\n\
        \u{20}          <...>-1060  (  990) [002] .... 2.000910: tracing_mark_write: B|990|work\n\
        \u{20}          <...>-1060  (  990) [002] .... 2.000920: tracing_mark_write: E|990\n\
        \u{20}          <...>-1060  (  990) [002] d..2 2.000930: sched_switch: prev_comm=Worker prev_pid=1060 \
        prev_prio=120 prev_state=S ==> next_comm=Other next_pid=1061 next_prio=120\n\
        \u{20}          <...>-1061  (  990) [002] .... 2.000940: tracing_mark_write: I|990|now\n";
    let section = |text: &str| {
        format!("<script class=\"trace-data\" type=\"application/text\">\n{text}</script>\n")
    };
    let page = format!(
        "<!DOCTYPE html>\n<html><body>\n{}{}</body></html>\n",
        section(dump),
        section(events)
    );
    std::fs::write(path.join("page.html"), page).unwrap();
    std::fs::write(path.join("dump.txt"), dump).unwrap();
    std::fs::write(path.join("events.ftrace"), events).unwrap();
    let inputs: [&[&str]; 2] = [&["page.html"], &["events.ftrace", "dump.txt"]];
    for input in inputs {
        for output in ["o.ftrace", "o.html", "o.pftrace", "o.json"] {
            let _ = converted(path, input, output);
            let read = engine.whole(path, output);
            let has = |row: &str| read.threads.contains(&row.to_owned());
            for (tid, name) in [(1057, "RenderThread"), (1060, "Worker"), (1061, "Other")] {
                assert!(
                    has(&format!("[{tid},990,\"{name}\"]")),
                    "{input:?} {output}: {:?}",
                    read.threads
                );
            }
            if output == "o.html" || output == "o.pftrace" {
                assert!(has("[1058,990,\"never runs\"]"), "{output}: {:?}", read.threads);
            }
            if output != "o.ftrace" {
                assert!(
                    read.processes.contains(&"[990,\"com.example.app\"]".to_owned()),
                    "{output}: {:?}",
                    read.processes
                );
            }
        }
    }
}

#[test]
fn real_threads_have_names_by_their_dump_beside_a_column_of_processes() {
    let Some(engine) = Engine::new() else { return };
    let path_of = |name: &str| phone_trace(name).map(|path| path.to_str().unwrap().to_owned());
    let (Some(events), Some(dump)) =
        (path_of("flutter-app.ftrace.txt.gz"), path_of("flutter-app.ps.txt.gz"))
    else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let _ = converted(path, &[&events, &dump], "named.ftrace");
    // As a kernel writes it that remembers few names.
    let mut nameless = String::new();
    for line in std::fs::read_to_string(path.join("named.ftrace")).unwrap().lines() {
        let bracket = line.find(" [0").unwrap_or(0);
        let dash = line[..bracket].rfind('-').filter(|_| line.contains(": tracing_mark_write: "));
        match dash {
            Some(_) if line[..bracket].contains("(-----)") => {}
            Some(dash) => writeln!(nameless, "           <...>{}", &line[dash..]).unwrap(),
            None if line.starts_with('#') => writeln!(nameless, "{line}").unwrap(),
            None => {}
        }
    }
    std::fs::write(path.join("nameless.ftrace"), nameless).unwrap();
    // `USER PID TID CMD`.
    let file = flate2::read::GzDecoder::new(std::fs::File::open(&dump).unwrap());
    let listed = std::io::read_to_string(file).unwrap();
    let listed = listed.split("TID CMD").nth(1).unwrap().lines();
    let listed: HashSet<&str> = listed.filter_map(|row| row.split_whitespace().nth(2)).collect();
    for output in ["o.ftrace", "o.html", "o.pftrace", "o.json"] {
        let _ = converted(path, &["nameless.ftrace", &dump], output);
        let threads = engine.whole(path, output).threads;
        // In text and in JSON a process's main thread without an event has no place for a name.
        let has_no_place = |row: &str| {
            let row: serde_json::Value = serde_json::from_str(row).unwrap();
            matches!(output, "o.ftrace" | "o.json") && row[0] == row[1]
        };
        let nameless = tids(&threads, |row| row.ends_with(",null]") && !has_no_place(row));
        let known = nameless.iter().filter(|tid| listed.contains(&***tid)).count();
        // Those that had ended, or not begun, when the dump was made have none.
        assert_eq!(known, 0, "{output}: {nameless:?}");
        assert!(threads.len() > 90, "{output}: {threads:?}");
    }
}

#[test]
fn each_item_of_the_batterys_history_has_perfettos_name_and_value() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut history = "9,0,i,vers,36,211,SPB5,SPB5\n\
        9,hsp,0,10217,\"com.android.systemui\"\n9,hsp,1,1000,\"*alarm*:a,\"b\"\"\n\
        9,h,0:RESET:TIME:1629844355125\n9,h,5,+w=0\n9,h,6,+w=1\n9,h,7,-w=0\n9,h,8,-w=1\n"
        .to_owned();
    for item in include_str!("../../../collector/trace/src/battery.txt").lines() {
        let mut words = item.split(' ');
        let (kind, name) = (words.next().unwrap(), words.next().unwrap());
        let items: Vec<String> = match kind {
            "event" => vec![format!("+{name}=0"), format!("-{name}=1"), format!("{name}=0")],
            _ => {
                let values = words
                    .skip(1)
                    .filter(|&value| value != "-")
                    .map(|value| format!("{name}={value}"));
                let states = ["+", "-"].map(|sign| format!("{sign}{name}"));
                // The battery's level, charge, voltage, status and plug have no signs; the last two have no numbers.
                let is_of_battery = ["Bl", "Bcc", "Bv", "Bs", "Bp"].contains(&name);
                let states = states.into_iter().filter(|_| !is_of_battery && name != "w");
                let number = Some(format!("{name}=7")).filter(|_| !["Bs", "Bp"].contains(&name));
                values.chain(states).chain(number).collect()
            }
        };
        for item in items {
            writeln!(history, "9,h,100,{item}").unwrap();
        }
    }
    std::fs::write(path.join("in.txt"), history).unwrap();
    assert_eq!(converted(path, &["in.txt"], "out.pftrace"), "");
    let queries = [
        "SELECT ts, t.name, value FROM counter c JOIN track t ON t.id = c.track_id ORDER BY 1, 2, 3",
        "SELECT ts, dur, t.name AS track, s.name FROM slice s JOIN track t ON t.id = s.track_id ORDER BY 1, 2, 3, 4",
    ];
    let rows = engine.rows(path, &["in.txt", "out.pftrace"], &queries);
    let [expected, found] = &rows[..] else { panic!("{} files", rows.len()) };
    assert!(expected[0].len() > 150 && expected[1].len() > 60, "{expected:?}");
    assert_eq!(found, expected);
}
