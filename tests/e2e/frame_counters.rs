//! Counters of a thread at its frames: what they say of planted frames is what the kernel's account says from outside.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tempfile::TempDir;
use tracetee_tests::trace::Line;
use tracetee_tests::{fixture, libcutils, library, preloaded, skip, trace};

/// The program of `tests/fixtures/frames.c` under the agent.
struct Frames {
    directory: TempDir,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// A thread's account as the kernel shows it to others: ns on a processor and ready for one, faults without and with
/// a disk.
type Account = [u64; 4];

impl Frames {
    fn start(more: &Value) -> Self {
        let directory = TempDir::new().unwrap();
        libcutils(directory.path(), 34, &[]);
        let program = fixture(directory.path(), "frames", &[]);
        let mut config = json!({
            "output": directory.path().join("out.ftrace"), "pass_on": "never", "frame_counters": true,
            "text": {"precision": "ns"},
        });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let agent = library(directory.path());
        let mut child = preloaded(&program, &agent, &config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { directory, child, input, output }
    }

    fn draw(&mut self, task: &str) -> String {
        writeln!(self.input.as_mut().unwrap(), "{task}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        answer.trim().to_owned()
    }

    /// The account of the main thread, which waits for the next line.
    fn account(&self) -> Account {
        let task = PathBuf::from(format!("/proc/{0}/task/{0}", self.child.id()));
        loop {
            let stat = std::fs::read_to_string(task.join("stat")).unwrap();
            let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
            if fields[0] != "S" {
                std::thread::yield_now();
                continue;
            }
            let sched = std::fs::read_to_string(task.join("schedstat")).unwrap();
            let mut sched = sched.split(' ').map(|field| field.trim().parse().unwrap());
            let fault = |index: usize| fields[index].parse().unwrap();
            return [sched.next().unwrap(), sched.next().unwrap(), fault(7), fault(9)];
        }
    }

    fn end(mut self) -> (TempDir, Vec<Line>) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
        let lines = trace::read(&self.directory.path().join("out.ftrace"));
        (self.directory, lines)
    }
}

/// A frame as the trace has it: its ns, and the counters at its begin (since the previous frame) and its end.
#[derive(Debug)]
struct Seen {
    wall_ns: u64,
    before: BTreeMap<String, u64>,
    inside: BTreeMap<String, u64>,
}

/// Reads the frames with nanoseconds from the text: [`Line`] has microseconds.
fn read_frames(path: &Path) -> Vec<Seen> {
    let (mut counters, mut frames, mut open) = (BTreeMap::new(), Vec::new(), None);
    for line in trace::text(path).lines().filter(|line| !line.starts_with('#')) {
        let (head, payload) = line.split_once(": tracing_mark_write: ").unwrap();
        let time = head.rsplit(' ').next().unwrap();
        let time_ns: u64 = time.replace('.', "").parse().unwrap();
        let fields: Vec<&str> = payload.split('|').collect();
        match fields[..] {
            ["C", _, name, value] => {
                let name = name.strip_prefix("tracetee: main ").unwrap();
                counters.insert(name.to_owned(), value.parse().unwrap());
            }
            ["B", _, name] if name.starts_with("Choreographer#doFrame") => {
                open = Some((time_ns, counters.clone()));
            }
            ["E", _] => {
                let (begin_ns, before) = open.take().unwrap();
                let (wall_ns, inside) = (time_ns - begin_ns, counters.clone());
                frames.push(Seen { wall_ns, before, inside });
            }
            _ => {}
        }
    }
    frames
}

const NAMES: [&str; 4] = ["running ns", "runnable ns", "page faults", "major page faults"];

fn has_schedstat() -> bool {
    let has = Path::new("/proc/self/task/1/schedstat").exists()
        || Path::new("/proc/self/schedstat").exists();
    if !has {
        skip("the kernel has no schedstat");
    }
    has
}

#[test]
fn planted_frames_are_what_the_kernels_account_says_from_outside() {
    if !has_schedstat() {
        return;
    }
    let mut frames = Frames::start(&json!({}));
    // A disk's file, not one in memory: the target directory is on one.
    let file = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| tracetee_tests::root().join("target"), PathBuf::from)
        .join(format!("faults-{}", std::process::id()));
    let mut bytes = std::fs::File::create(&file).unwrap();
    bytes.write_all(&vec![7; 16 << 20]).unwrap();
    bytes.sync_all().unwrap();

    // The first frame is the base of the readings.
    frames.draw("sleep 1");
    let mut accounts = vec![frames.account()];
    let mut draw = |frames: &mut Frames, task: &str| {
        frames.draw(task);
        accounts.push(frames.account());
    };
    draw(&mut frames, "busy 300");
    draw(&mut frames, "sleep 300");
    draw(&mut frames, &format!("fault {}", file.display()));
    // Both want one processor.
    let pid = frames.child.id().to_string();
    let pinned = Command::new("taskset").args(["-cp", "0", &pid]).output();
    let mut hog = Command::new("taskset")
        .args(["-c", "0", "sh", "-c", "while :; do :; done"])
        .spawn()
        .unwrap();
    draw(&mut frames, "busy 300");
    hog.kill().unwrap();
    hog.wait().unwrap();
    assert!(pinned.unwrap().status.success());
    std::fs::remove_file(&file).unwrap();
    frames.draw("sleep 1");
    let (directory, _) = frames.end();

    let read = read_frames(&directory.path().join("out.ftrace"));
    assert_eq!(read.len(), 6);
    // An account is taken some time after a frame's end: it has the frame, and a part of the times before and after it.
    for (frames, accounts) in read[1..].windows(2).zip(accounts.windows(2)) {
        let [frame, next] = frames else { panic!("two frames") };
        for (index, name) in NAMES.iter().enumerate() {
            let inside = frame.inside[*name];
            let around = frame.before[*name] + next.before[*name];
            let outside = accounts[1][index] - accounts[0][index];
            // Of faults few; of time 2 % of the frame.
            let most = if index < 2 { frame.wall_ns / 50 } else { 8 };
            let range = inside.saturating_sub(most)..=inside + around + most;
            println!("{name}: {inside} in the frame, {around} around it, {outside} from outside");
            assert!(range.contains(&outside), "{name}: {outside} {range:?}: {frame:?} {next:?}");
        }
    }
    let share = |frame: usize, name: &str| {
        let Seen { wall_ns, inside, .. } = &read[frame];
        let on = inside["running ns"] + inside["runnable ns"];
        let ns = if name == "blocked" { wall_ns.saturating_sub(on) } else { inside[name] };
        ns * 100 / wall_ns
    };
    let shares =
        |frame: usize| [share(frame, NAMES[0]), share(frame, NAMES[1]), share(frame, "blocked")];
    println!("{:?} {:?} {:?} {:?}", shares(1), shares(2), shares(3), shares(4));
    assert!(share(1, "blocked") <= 2 && share(2, "blocked") >= 50, "{read:?}");
    assert!(read[3].inside["major page faults"] >= 100, "{read:?}");
    assert!(share(4, "runnable ns") >= 30 && share(4, "blocked") <= 2, "{read:?}");
}

#[test]
fn a_capture_that_does_not_ask_has_no_counters() {
    let mut frames = Frames::start(&json!({"frame_counters": false}));
    (0..3).for_each(|_| drop(frames.draw("busy 1")));
    let (_directory, lines) = frames.end();
    let count = |letter| lines.iter().filter(|line| line.payload.starts_with(letter)).count();
    assert_eq!([count('B'), count('E'), count('C')], [3, 3, 0], "{lines:?}");
}

#[test]
fn a_program_that_closes_the_descriptor_loses_the_wait_for_a_processor_alone() {
    let mut frames = Frames::start(&json!({}));
    ["busy 1", "close", "sleep 1", "sleep 1"].iter().for_each(|task| drop(frames.draw(task)));
    let (directory, _) = frames.end();
    let read = read_frames(&directory.path().join("out.ftrace"));
    assert_eq!(read.len(), 3);
    assert!(read.iter().skip(1).all(|frame| frame.inside["running ns"] > 0), "{read:?}");
}

#[test]
fn filters_and_redaction_leave_counters_right() {
    let text = json!({"precision": "ns", "min_slice_us": {"main": 5000},
        "redaction": [{"pattern": "tracetee", "action": "drop"}]});
    let mut frames = Frames::start(&json!({"text": text}));
    ["sleep 8", "sleep 1", "sleep 8"].iter().for_each(|task| drop(frames.draw(task)));
    let (directory, _) = frames.end();
    let read = read_frames(&directory.path().join("out.ftrace"));
    assert_eq!(read.len(), 2, "{read:?}");
    assert!(read.iter().all(|frame| frame.inside.contains_key("running ns")), "{read:?}");
}

#[test]
fn a_killed_process_leaves_the_counters_of_its_frames() {
    let kept = TempDir::new().unwrap();
    let [pools, recovered] = ["pools", "recovered"].map(|name| kept.path().join(name));
    std::fs::create_dir(&pools).unwrap();
    let recorder = json!({"directory": pools, "recover_to": recovered});
    let mut killed = Frames::start(&json!({"recorder": recorder}));
    ["sleep 3"; 3].iter().for_each(|task| drop(killed.draw(task)));
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    let mut next = Frames::start(&json!({"recorder": recorder, "frame_counters": false}));
    let files = |path: &Path| std::fs::read_dir(path).map_or(0, Iterator::count);
    // The killed process's file goes when its trace is there.
    while files(&pools) > 1 || files(&recovered) == 0 {
        next.draw("sleep 1");
    }
    next.end();
    let trace = std::fs::read_dir(&recovered).unwrap().next().unwrap().unwrap().path();
    let lines = trace::read(&trace);
    let counters = lines.iter().filter(|line| line.payload.contains("|tracetee: main running ns|"));
    // Two readings a frame; the first is the base.
    assert_eq!(counters.count(), 5, "{lines:?}");
}

/// `cargo test -p tracetee-tests --test frame_counters -- --ignored --nocapture`: the cost that docs/BENCHMARKS.md has.
#[test]
#[ignore = "a measurement"]
fn cost_of_a_frame() {
    for (task, is_on) in [("cost", false), ("cost", true), ("switched", false), ("switched", true)]
    {
        let mut frames = Frames::start(&json!({"frame_counters": is_on,
            "recorder": {"mode": "ring", "capacity_kb": 1024}}));
        let draw = |_| frames.draw(&format!("{task} 2000")).parse::<u64>().unwrap();
        let mut ns: Vec<u64> = (0..40).map(draw).collect();
        ns.sort_unstable();
        println!("{task}, frame_counters {is_on}: {} ns a frame, median {}", ns[0], ns[20]);
        frames.end();
    }
}
