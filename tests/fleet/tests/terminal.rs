//! A terminal shows reports as wide as it is and in colours, and the progress of a command that takes long; a file and a pipe get
//! neither.

use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tracetee_tests::tracetee;
use tracetee_tests_upload::collector::{Collector, run};

/// Columns of the terminal.
const COLUMNS: usize = 150;
/// Columns of lines for a pipe.
const PIPED: usize = 120;
/// Begin of a colour.
const ESCAPE: char = '\u{1b}';

/// Runs the program on a terminal of some columns, by script(1) of Debian's essential packages, and returns its output.
fn on_terminal_of(columns: usize, variables: &str, arguments: &str) -> String {
    let program = tracetee().display();
    let command = format!("stty rows 50 cols {columns}; {variables} exec {program} {arguments}");
    let mut script = Command::new("script");
    script.env_remove("NO_COLOR").env("TERM", "xterm");
    run(script.args(["--quiet", "--return", "--command", &command, "/dev/null"]))
}

fn on_terminal(arguments: &str) -> String {
    on_terminal_of(COLUMNS, "", arguments)
}

/// Runs the program in a pipe. Returns stdout and stderr.
fn piped(arguments: &[&str], columns: Option<&str>) -> [String; 2] {
    let mut program = Command::new(tracetee());
    program.env_remove("COLUMNS").envs(columns.map(|columns| ("COLUMNS", columns)));
    let done = program.args(arguments).output().unwrap();
    [done.stdout, done.stderr].map(|bytes| String::from_utf8(bytes).unwrap())
}

/// Returns the columns of the widest line, without colours.
fn widest(text: &str) -> usize {
    let width = |line: &str| {
        let mut words = line.split(ESCAPE);
        let first = words.next().unwrap_or_default().to_owned();
        let rest = words.filter_map(|colour| colour.split_once('m')).map(|(_, words)| words);
        rest.fold(first, |all, words| all + words).trim_end().chars().count()
    };
    text.lines().map(width).max().unwrap()
}

#[test]
fn a_report_is_as_wide_as_the_terminal_and_has_120_columns_in_a_pipe() {
    let collector = Collector::start(&[]);
    collector.simulate(12, 30, &[]);
    collector.settle();
    let store = collector.store();
    let store = store.to_str().unwrap();
    let report = format!("report --store {store}");
    for (columns, at_least, at_most) in
        [(COLUMNS, PIPED + 1, COLUMNS), (400, COLUMNS + 1, 200), (70, 61, 70)]
    {
        let shown = widest(&on_terminal_of(columns, "", &report));
        assert!((at_least..=at_most).contains(&shown), "{columns}: {shown}");
    }
    let [text, _] = piped(&["report", "--store", store], None);
    assert!((81..=PIPED).contains(&widest(&text)), "{text}");
    let [text, _] = piped(&["report", "--store", store], Some("80"));
    assert!((61..=80).contains(&widest(&text)), "{text}");

    let head = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    assert!(head(&on_terminal(&report)).contains("\u{1b}[1m"), "a title is bold");
    assert!(!on_terminal_of(COLUMNS, "NO_COLOR=1", &report).contains(ESCAPE));
    assert!(!on_terminal(&format!("{report} --color never")).contains(ESCAPE));
    assert!(!text.contains(ESCAPE));
    let [text, _] = piped(&["--color", "always", "report", "--store", store], None);
    assert!(text.contains("\u{1b}[33m"), "late frames are yellow: {text}");
    let file = Path::new(store).join("report.txt");
    let file = file.to_str().unwrap();
    piped(&["report", "--store", store, "--color", "always", "-o", file], None);
    let text = std::fs::read_to_string(file).unwrap();
    assert!(!text.contains(|char: char| char.is_control() && char != '\n'), "{text:?}");
}

#[test]
fn names_of_a_trace_have_no_colours() {
    let record = |ms: u64, record: &str| {
        format!("  app-7  (    7) [000] ...1 1.{ms:03}000: tracing_mark_write: {record}\n")
    };
    let trace = [
        record(0, "B|7|Choreographer#doFrame 1"),
        record(1, "B|7|traversal"),
        record(2, "B|7|ev\u{1b}[31mil\u{2}bind"),
        record(90, "E|7"),
        record(91, "E|7"),
        record(92, "E|7"),
    ]
    .concat();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hostile.ftrace");
    std::fs::write(&path, trace).unwrap();
    let [text, _] = piped(&["report", path.to_str().unwrap(), "--color", "always"], None);
    assert!(text.contains("ev\\u001b[31mil\\u0002bind"), "{text}");
    assert!(!text.contains("[31mil\u{1b}") && !text.contains("\u{1b}[31mil"), "{text}");
    assert!(text.lines().nth(1).unwrap().contains("1 of 1 frames (100.0 %)"), "{text}");
}

#[test]
fn an_error_has_its_hint_on_a_line_of_its_own() {
    let [_, said] = piped(&["report", "--store", "nowhere"], None);
    let expected = "tracetee: error: nowhere/tables.sqlite does not exist\n\
                    tracetee: hint: run `tracetee collect` or `tracetee store rebuild` first\n";
    assert_eq!(said, expected);
    let [_, said] = piped(&["-q", "simulate"], None);
    assert_eq!(said, "tracetee: error: no collector to send to\ntracetee: hint: pass --url URL\n");
    let [_, said] = piped(&["--color=always", "simulate"], None);
    assert!(said.contains("\u{1b}[31merror:") && said.contains("\u{1b}[36mhint:"), "{said:?}");
    let [_, said] = piped(&["--color", "always", "no-such-command"], None);
    assert!(said.contains(ESCAPE), "of the parser, too: {said:?}");
    let [_, said] = piped(&["-v", "report", "--store", "nowhere"], None);
    assert!(said.contains("DEBUG analyzing"), "{said}");
}

#[test]
fn a_long_simulation_counts_its_devices_on_a_terminal() {
    let collector = Collector::start(&["--app-rate", "100000"]);
    let arguments =
        format!("simulate --devices 1000 --connections 1 --frames 30 --url {}", collector.url);
    let shown = on_terminal(&arguments);
    assert!(shown.contains("sending devices") && shown.contains(" of 1000"), "{shown}");
    let shown = on_terminal(&format!("-q {}", arguments.replace("1000", "300")));
    assert!(!shown.contains("sending devices"), "{shown}");
    let mut piped = Command::new(tracetee());
    piped.args(["simulate", "--devices", "3", "--url", &collector.url]);
    assert_eq!(run(&mut piped).lines().count(), 2);
}

/// Time that each command of the table waits: more than the second after which progress is shown, and than its start takes on a
/// busy machine.
const WAIT: Duration = Duration::from_secs(6);

/// Answers nothing for so long, then ends the connection.
fn silent_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            std::thread::spawn(move || {
                let _ = connection.read(&mut [0; 1024]);
                std::thread::sleep(WAIT);
            });
        }
    });
    format!("http://{address}")
}

/// Each command waits: for a file (`{slow}` is a pipe without a writer at first), stdin, a server, an object store or adb.
#[test]
fn each_command_that_takes_a_second_shows_what_it_does() {
    let commands = [
        ("report -", "analyzing"),
        ("convert - -o out.html", "converting"),
        ("dmtracedump -", "reading"),
        ("atrace --from-file {slow} -o out.html", "capturing"),
        ("doctor {slow}", "asking the agent"),
        ("doctor --app com.example", "asking the agent"),
        ("device-test --apk {slow}", "testing the device"),
        ("gate --benchmark {slow} --base {slow}", "reading traces"),
        ("guard --store s3://store --app a --from 1 --to 2", "comparing versions"),
        ("bisect --store s3://store --app a", "comparing versions"),
        ("report --store s3://store", "analyzing"),
        ("simulate --devices 1 --url {server}", "sending devices"),
        ("probe --url {server}", "waiting for an answer"),
        (
            "store mapping upload --app com.example --version 1 --url {server} {slow}",
            "on the store",
        ),
        ("store tables --store s3://store --list", "on the store"),
        ("store tables --keys {slow}", "on the store"),
        ("store rebuild --store s3://store", "on the store"),
        ("store backup --store s3://store -o copy", "on the store"),
        ("store forget --store s3://store 7", "on the store"),
    ];
    let server = silent_server();
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path();
    std::fs::write(own.join("adb"), format!("#!/bin/sh\nsleep {}\nexit 1\n", WAIT.as_secs_f64()))
        .unwrap();
    run(Command::new("chmod").arg("+x").arg(own.join("adb")));
    let program = tracetee().display();
    let shows = &|number: usize, arguments: &str, doing: &str| {
        let slow = format!("slow-{number}");
        run(Command::new("mkfifo").arg(own.join(&slow)));
        let arguments = arguments.replace("{slow}", &slow).replace("{server}", &server);
        let wait = WAIT.as_secs_f64();
        let command = format!(
            "(sleep {wait}; timeout 5 sh -c 'echo > {slow}') & \
             sleep {wait} | PATH=$PWD:$PATH timeout 15 {program} {arguments}"
        );
        let mut script = Command::new("script");
        script.current_dir(own).env("TERM", "xterm").env("AWS_ENDPOINT_URL", &server);
        script.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
        script.env("AWS_ALLOW_HTTP", "true");
        let output = script.args(["--quiet", "--command", &command, "/dev/null"]).output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        (!shown.contains(doing)).then(|| format!("{arguments}: {shown:?}"))
    };
    let silent: Vec<_> = std::thread::scope(|scope| {
        let begun = commands.iter().enumerate();
        let begun = begun.map(|(number, &(arguments, doing))| {
            scope.spawn(move || shows(number, arguments, doing))
        });
        let begun: Vec<_> = begun.collect();
        begun.into_iter().filter_map(|shows| shows.join().unwrap()).collect()
    });
    assert!(silent.is_empty(), "{silent:#?}");
}
