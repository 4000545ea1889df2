//! Spans and events of `tracing` in a capture: of threads, and of futures that a runtime polls on several threads.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::time::Duration;
use tracetee::{Config, Mode, RecorderConfig, TracingLayer};
use tracing::{Instrument, info, info_span, warn};
use tracing_subscriber::layer::SubscriberExt;

/// Records by thread, each with its details: payloads without the process.
fn capture(records: impl FnOnce()) -> BTreeMap<String, Vec<(String, String)>> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.ftrace");
    let recorder = RecorderConfig { mode: Mode::Ring, ..RecorderConfig::default() };
    tracetee::start(&Config { recorder, ..Config::default() }).unwrap();
    records();
    tracetee::stop().unwrap();
    let summary = tracetee::dump(&path).unwrap();
    assert_eq!((summary.stray_ends, summary.closed_sections), (0, 0));
    let text = std::fs::read_to_string(path).unwrap();
    let pid = format!("|{}", std::process::id());
    let (mut threads, mut details) = (BTreeMap::<_, Vec<_>>::new(), String::new());
    for line in text.lines() {
        if let Some(json) = line.strip_prefix("#@ ") {
            json.clone_into(&mut details);
        } else if let Some((head, payload)) = line.split_once(": tracing_mark_write: ")
            && !payload.starts_with("trace_event")
        {
            let thread = head.split(" (").next().unwrap().trim().to_owned();
            let record = (payload.replacen(&pid, "", 1), std::mem::take(&mut details));
            threads.entry(thread).or_default().push(record);
        }
    }
    threads
}

/// One test: there is one capture at a time, and one subscriber.
#[test]
fn spans_are_sections_across_polls_and_events_are_instants() {
    let subscriber = tracing_subscriber::registry().with(TracingLayer::new());
    tracing::subscriber::set_global_default(subscriber).unwrap();
    threads();
    polls();
}

fn threads() {
    let early = info_span!("before the capture", lost = 1).entered();
    let mut early = Some(early);
    let captured = capture(|| {
        {
            let outer = info_span!(
                "outer",
                n = 3,
                url = "/x",
                r = 0.5,
                ok = true,
                late = tracing::field::Empty
            );
            let entered = outer.enter();
            outer.record("late", u64::MAX);
            warn!(code = ?Some(5), "something {}", "happened");
            // Left in another order than entered.
            let inner = info_span!("inner").entered();
            drop(entered);
            drop(inner);
        }
        early.take();
        info!(unnamed = 1);
    });
    let [records] = &captured.values().collect::<Vec<_>>()[..] else { panic!("{captured:?}") };
    let payloads: Vec<_> = records.iter().map(|(payload, _)| &**payload).collect();
    let [head @ .., unnamed] = &payloads[..] else { panic!("{captured:?}") };
    let expected = ["B|outer", "I|something happened", "B|inner", "E", "E", "B|inner", "E"];
    assert_eq!(head, expected);
    assert!(unnamed.starts_with("I|event "), "{unnamed}");
    let begin = r#"{"args":{"n":3,"url":"/x","r":0.5,"ok":true},"cat":"spans","flows":["begin:"#;
    assert!(records[0].1.starts_with(begin), "{records:?}");
    assert_eq!(records[1].1, r#"{"args":{"code":"Some(5)","level":"WARN"},"cat":"spans"}"#);
    let [first, again] =
        [&records[2].1, &records[5].1].map(|details| details.replace("begin:", "step:"));
    assert_eq!(first, again, "a span that begins again is the same flow");
    assert_eq!(records[7].1, r#"{"args":{"unnamed":1,"level":"INFO"},"cat":"spans"}"#);
}

fn polls() {
    const TASKS: usize = 8;
    const ROUNDS: usize = 50;
    let captured = capture(|| {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_time().build();
        let runtime = runtime.unwrap();
        runtime.block_on(async {
            let tasks: Vec<_> = (0..TASKS)
                .map(|task| {
                    let work = async move {
                        for round in 0..ROUNDS {
                            let step = async {
                                tokio::task::yield_now().await;
                                if round % 10 == 0 {
                                    tokio::time::sleep(Duration::from_millis(1)).await;
                                }
                            };
                            step.instrument(info_span!("step", round)).await;
                        }
                    };
                    tokio::spawn(work.instrument(info_span!("task", task)))
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
    // Each thread's sections nest: a step is in its task. Each task begins its flow once, and steps on with each further poll.
    let mut begun: BTreeMap<String, usize> = BTreeMap::new();
    let mut threads_of_tasks: BTreeMap<String, std::collections::BTreeSet<&String>> =
        BTreeMap::new();
    for (thread, records) in &captured {
        let mut open: Vec<&str> = Vec::new();
        for (payload, details) in records {
            match &**payload {
                "B|task" => {
                    assert!(open.is_empty(), "{thread}: {open:?}");
                    let (args, flow) = details.split_once("},\"cat\"").unwrap();
                    if flow.contains("begin:") {
                        *begun.entry(args.to_owned()).or_default() += 1;
                    }
                    threads_of_tasks.entry(args.to_owned()).or_default().insert(thread);
                    open.push("task");
                }
                "B|step" => {
                    assert_eq!(open, ["task"], "{thread}");
                    open.push("step");
                }
                "E" => drop(open.pop().unwrap()),
                other => panic!("{other}"),
            }
        }
        assert!(open.is_empty());
    }
    assert!(begun.len() == TASKS && begun.values().all(|&count| count == 1), "{begun:?}");
    let count =
        |name: &str| captured.values().flatten().filter(|(payload, _)| payload == name).count();
    // Each round is polled at least twice, with its task.
    assert!(count("B|task") > TASKS * ROUNDS && count("B|step") >= 2 * TASKS * ROUNDS);
    assert!(threads_of_tasks.values().any(|threads| threads.len() > 1), "no task has moved");
}
