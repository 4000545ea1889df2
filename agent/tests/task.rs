//! Sections of tasks: the exact records of each thread, on a plain executor and on tokio's.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tracetee::{Config, TaskSection, TraceFuture, instant, misuses, set_strict};

/// A capture is of the whole process: one test at a time.
static CAPTURE: Mutex<()> = Mutex::new(());

/// Returns the records that `run` causes: thread, and payload without the pid.
fn recorded(run: impl FnOnce()) -> Vec<(u32, String)> {
    let _one = CAPTURE.lock().unwrap_or_else(PoisonError::into_inner);
    start();
    run();
    stop()
}

fn start() {
    let mut config = Config::default();
    config.recorder.capacity_kb = 64 * 1024;
    tracetee::start(&config).unwrap();
}

fn stop() -> Vec<(u32, String)> {
    tracetee::stop().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("task.ftrace");
    tracetee::dump(&path).unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| line.contains(": tracing_mark_write: "));
    let records = lines.filter_map(|line| {
        let (head, payload) = line.split_once(": tracing_mark_write: ").unwrap();
        let head = head.split(" (").next().unwrap().trim_end();
        let tid = head.rsplit('-').next().unwrap().parse().unwrap();
        let mut fields = payload.splitn(3, '|');
        let kind = fields.next().unwrap();
        let name = fields.nth(1).unwrap_or_default();
        let is_ours = matches!(kind, "B" | "E" | "I") && !name.starts_with("tracetee");
        is_ours.then(|| (tid, format!("{kind} {name}").trim_end().to_owned()))
    });
    records.collect()
}

fn payloads(records: &[(u32, String)]) -> String {
    records.iter().map(|(_, payload)| &**payload).collect::<Vec<_>>().join(", ")
}

/// Pending once.
#[derive(Default)]
struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Polls once, without an executor.
fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = Box::pin(future);
    loop {
        if let Poll::Ready(output) = poll(&mut future) {
            return output;
        }
    }
}

#[test]
fn open_sections_end_with_a_poll_and_begin_again_with_the_next() {
    let records = recorded(|| {
        block_on(
            async {
                let _b = TaskSection::begin("B");
                instant("start");
                Yield::default().await;
                instant("end");
            }
            .traced("A"),
        );
    });
    assert_eq!(payloads(&records), "B A, B B, I start, E, E, B A, B B, I end, E, E");
}

#[test]
fn each_thread_s_sections_nest_wherever_the_task_goes_on() {
    let records = recorded(|| {
        let mut task = Box::pin(
            async {
                let _b = TaskSection::begin("B");
                Yield::default().await;
                drop(TaskSection::begin("C"));
            }
            .traced("A"),
        );
        assert!(poll(&mut task).is_pending());
        std::thread::spawn(move || assert!(poll(&mut task).is_ready())).join().unwrap();
    });
    let first = records[0].0;
    let (here, there): (Vec<_>, Vec<_>) = records.into_iter().partition(|(tid, _)| *tid == first);
    assert_eq!(payloads(&here), "B A, B B, E, E");
    assert_eq!(payloads(&there), "B A, B B, B C, E, E, E");
}

#[test]
fn a_panic_ends_what_is_open_and_goes_on() {
    let records = recorded(|| {
        let mut task = Box::pin(
            async {
                Yield::default().await;
                let _b = TaskSection::begin("B");
                panic!("of the test");
            }
            .traced("A"),
        );
        assert!(poll(&mut task).is_pending());
        let panicked = catch_unwind(AssertUnwindSafe(|| poll(&mut task).is_ready()));
        assert!(panicked.is_err());
        // The thread has no task left: a section is the thread's.
        drop(TaskSection::begin("after"));
    });
    assert_eq!(payloads(&records), "B A, E, B A, B B, E, E, B after, E");
}

struct Finally;

impl Drop for Finally {
    fn drop(&mut self) {
        instant("finally");
    }
}

#[test]
fn a_task_that_is_cancelled_is_in_its_sections_on_its_way_out() {
    let records = recorded(|| {
        let mut task = Box::pin(
            async {
                let _section = TaskSection::begin("B");
                let _finally = Finally;
                std::future::pending::<()>().await;
            }
            .traced("L"),
        );
        assert!(poll(&mut task).is_pending());
        drop(task);
        // One that was never polled has not begun.
        drop(async { instant("never") }.traced("never"));
    });
    assert_eq!(payloads(&records), "B L, B B, E, E, B L, B B, I finally, E, E");
}

#[test]
fn tasks_within_tasks_have_their_own_sections() {
    let records = recorded(|| {
        block_on(
            async {
                let _a = TaskSection::begin("a");
                async {
                    let _b = TaskSection::begin("b");
                    Yield::default().await;
                }
                .traced("inner")
                .await;
                instant("behind");
            }
            .traced("outer"),
        );
    });
    assert_eq!(
        payloads(&records),
        "B outer, B a, B inner, B b, E, E, E, E, B outer, B a, B inner, B b, E, E, I behind, E, E"
    );
}

#[test]
fn a_capture_that_begins_or_ends_in_the_middle_has_whole_polls() {
    let _one = CAPTURE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut task = Box::pin(
        async {
            for _ in 0..4 {
                let _b = TaskSection::begin("B");
                Yield::default().await;
            }
        }
        .traced("A"),
    );
    assert!(poll(&mut task).is_pending());
    start();
    assert!(poll(&mut task).is_pending());
    let records = stop();
    assert!(poll(&mut task).is_pending());
    // The B of before ends, the next one begins.
    assert_eq!(payloads(&records), "B A, B B, E, B B, E, E");
}

#[test]
fn a_section_that_ends_elsewhere_is_counted_and_in_strict_mode_a_panic() {
    let before = misuses();
    let records = recorded(|| {
        let kept = Arc::new(Mutex::new(None));
        let of_task = Arc::clone(&kept);
        block_on(
            async move {
                *of_task.lock().unwrap() = Some(TaskSection::begin("kept"));
            }
            .traced("A"),
        );
        drop(kept.lock().unwrap().take());
        let of_thread = TaskSection::begin("thread");
        std::thread::spawn(move || drop(of_thread)).join().unwrap();
        tracetee::end_section();
    });
    assert_eq!(misuses() - before, 2);
    assert_eq!(payloads(&records), "B A, B kept, E, E, B thread, E");
    recorded(|| {
        set_strict(true);
        let section = TaskSection::begin("strict");
        let ended = std::thread::spawn(move || drop(section)).join();
        set_strict(false);
        assert!(ended.is_err());
    });
}

/// A tree of tasks and sections; each step says where it is by an instant.
fn body(path: String, depth: u32, seed: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    Box::pin(async move {
        let mut random = seed;
        let mut next = || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            random >> 33
        };
        for _ in 0..1 + next() % 3 {
            instant(&format!("at {path}"));
            let child = NEXT.fetch_add(1, Ordering::Relaxed);
            match next() % 5 {
                0 => Yield::default().await,
                1 => tokio::time::sleep(Duration::from_micros(next() % 200)).await,
                2 if depth > 0 => {
                    let name = format!("s{child}");
                    let _section = TaskSection::begin(name.clone());
                    body(format!("{path}/{name}"), depth - 1, next()).await;
                }
                3 if depth > 0 => {
                    let name = format!("t{child}");
                    // A task of its own, on whatever thread, begins with nothing.
                    let task = body(name.clone(), depth - 1, next()).traced(name);
                    tokio::spawn(task).await.unwrap();
                }
                4 if depth > 0 => {
                    let name = format!("i{child}");
                    body(format!("{path}/{name}"), depth - 1, next()).traced(name).await;
                }
                _ => {}
            }
            instant(&format!("at {path}"));
        }
    })
}

#[test]
fn in_a_thousand_trees_of_tasks_every_step_is_in_its_own_sections() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build()
        .unwrap();
    let records = recorded(|| {
        let trees: Vec<_> = (0..1000)
            .map(|seed| {
                let name = format!("r{seed}");
                runtime.spawn(body(name.clone(), 4, seed).traced(name))
            })
            .collect();
        for tree in trees {
            runtime.block_on(tree).unwrap();
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(10));
    let mut open: std::collections::HashMap<u32, Vec<String>> = std::collections::HashMap::new();
    let (mut steps, mut resumed) = (0, String::new());
    for (tid, payload) in &records {
        let open = open.entry(*tid).or_default();
        match payload.split_once(' ') {
            Some(("B", name)) => open.push(name.to_owned()),
            Some(("I", step)) => {
                assert_eq!(step.strip_prefix("at ").unwrap(), open.join("/"));
                steps += 1;
            }
            _ => {
                let ended = open.pop();
                assert!(ended.is_some(), "an end where nothing is open");
                write!(resumed, "{}", ended.unwrap().len()).unwrap();
            }
        }
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
    assert!(steps > 3000, "{steps}");
    assert!(open.len() > 1, "all ran on one thread");
}
