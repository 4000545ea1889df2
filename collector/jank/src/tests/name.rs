//! Names by which threads, processes, screens and waits for messages are known: each of a list, and names like them.

use crate::idle::{is_idle, is_loop};
use crate::normalize;
use crate::tests;
use crate::tests::sched_text::{MAIN, Text};
use crate::{Cause, Options, Unknown, analyze};

fn assert_known(is_known: fn(&str) -> bool, names: &[&str]) {
    for name in names {
        for form in
            [(*name).to_owned(), format!("a.b.{name}"), format!("void a.b.{name}(int, a.B)")]
        {
            assert!(is_known(&form), "{form}");
        }
        for other in
            [format!("My{name}"), format!("{name}Now"), format!("{name}.run"), format!("x({name})")]
        {
            assert!(!is_known(&other), "{other}");
        }
    }
}

#[test]
fn waits_for_messages_are_known_in_each_of_their_forms() {
    assert_known(
        is_idle,
        &[
            "MessageQueue.next",
            "MessageQueue.nextLegacy",
            "MessageQueue.nextConcurrent",
            "nativePollOnce",
            "Looper.pollOnce",
            "Looper.pollInner",
            "Looper.pollAll",
            "ALooper_pollOnce",
            "ALooper_pollAll",
            "epoll_wait",
            "epoll_pwait",
        ],
    );
    assert!(is_idle("android.os.MessageQueue.nativePollOnce(JI)V"));
    assert!(is_idle("android::Looper::pollInner(int)") && is_idle("__epoll_wait"));
}

#[test]
fn loops_around_messages_are_known_in_each_of_their_forms() {
    assert_known(
        is_loop,
        &[
            "Looper.loop",
            "Looper.loopOnce",
            "ActivityThread.main",
            "ZygoteInit.main",
            "RuntimeInit$MethodAndArgsCaller.run",
            "RuntimeInit.main",
            "NativeStart.main",
            "HandlerThread.run",
            "Thread.run",
            "Method.invoke",
        ],
    );
}

/// Returns the cause of a frame whose main thread slept until a thread woke it: its name, id and process as in ftrace.
fn woken_by(waker: &str, others: &[&str]) -> (Cause, String) {
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    for thread in [waker].iter().chain(others) {
        let mark = format!("{thread} [000] ...1 0.001000: tracing_mark_write: C|700|a|1");
        text.raw(1_000, &mark);
    }
    text.switch(9_000, 0, 0, "R", MAIN);
    text.slice(MAIN, 10_000, 40_000, "Choreographer#doFrame");
    text.switch(13_000, 0, MAIN, "S", 0);
    let wake = "sched_waking: comm=com.app pid=100 prio=120 target_cpu=000";
    text.raw(37_000, &format!("{waker} [001] d..2 0.037000: {wake}"));
    text.switch(37_500, 0, 0, "R", MAIN);
    let frames = analyze(&text.trace(), &Options::default()).unwrap().frames;
    frames[0].cause.as_ref().map(|(cause, key)| (*cause, key.to_string())).unwrap()
}

#[test]
fn threads_of_other_processes_are_named_with_their_process_and_without_its_id() {
    let server = ["system_server-900 (900)"];
    for (waker, others, expected) in [
        ("Binder:900_1-901 (900)", &server[..], "system_server's binder thread"),
        ("android.display-902 (900)", &server, "system_server's android.display"),
        ("system_server-900 (900)", &[], "system_server"),
        ("/system/bin/netd-903 (903)", &[], "netd"),
        // The process has no name.
        ("HwBinder:700_2-901 (900)", &[], "a binder thread"),
        ("worker-101 (100)", &[], "worker"),
        ("binder:100_4-101 (100)", &[], "a binder thread"),
    ] {
        let expected = (Cause::Wait, format!("woken by {expected}"));
        assert_eq!(woken_by(waker, others), expected, "{waker}");
    }
}

#[test]
fn processes_of_the_compositor_are_known_by_their_names() {
    let cause = |process: &str| woken_by(&format!("{process}-700 (700)"), &[]);
    let system = |key: &str| (Cause::System, format!("woken by {key}"));
    assert_eq!(cause("surfaceflinger"), system("SurfaceFlinger's surfaceflinger"));
    assert_eq!(cause("graphics.composer"), system("composer's graphics.composer"));
    assert_eq!(cause("hwcomposer"), system("composer's hwcomposer"));
    assert_eq!(cause("surfaceflingers"), (Cause::Wait, "woken by surfaceflingers".to_owned()));
}

#[test]
fn a_number_at_the_end_goes_unless_nothing_but_a_sign_is_left() {
    for (name, expected) in
        [("-#", "-#"), (":12", ":#"), ("- 12", "-"), ("a: 12", "a:"), ("a #", "a"), ("a#", "a#")]
    {
        assert_eq!(normalize(name), expected, "{name}");
    }
}

#[test]
fn an_open_question_is_said_with_the_event_to_switch_on() {
    for (unknown, event) in [
        (Unknown::ThreadStates, "sched_switch"),
        (Unknown::Wakers, "sched_waking"),
        (Unknown::DiskWaits, "sched_blocked_reason"),
        (Unknown::BinderPeers, "binder_transaction"),
        (Unknown::Clocks, "cpu_frequency"),
        (Unknown::Vsyncs, "vsync-app"),
        (Unknown::Display, "frametimeline"),
    ] {
        let text = unknown.text().to_lowercase();
        assert!(text.ends_with(')') && text.contains(event) && !text.contains("  "), "{text}");
    }
}

#[test]
fn screens_are_those_that_the_app_says_else_its_activities() {
    let frames = [
        tests::slice(tests::MAIN, "B Choreographer#doFrame", 0, 1_000),
        tests::slice(tests::MAIN, "B Choreographer#doFrame", 20_000, 21_000),
        tests::slice(tests::MAIN, "B Choreographer#doFrame", 40_000, 41_000),
    ];
    let activity = tests::slice(tests::MAIN, "B performResume:com.example.Feed", 10_000, 11_000);
    let screens = |about: &str, lines: &[[_; 2]], instants: &[_]| {
        let lines: Vec<_> = lines.concat().into_iter().chain(instants.iter().copied()).collect();
        let analysis = analyze(&tests::trace(about, &lines), &Options::default()).unwrap();
        analysis
            .frames
            .iter()
            .map(|frame| frame.screen.as_deref().map(str::to_owned))
            .collect::<Vec<_>>()
    };
    let some = |name: &str| Some(name.to_owned());
    let all = [frames[0], frames[1], frames[2], activity];
    assert_eq!(
        screens("{}", &all, &[]),
        [None, some("com.example.Feed"), some("com.example.Feed")]
    );
    let said = [(tests::MAIN, 30_000, "I screen:Detail")];
    assert_eq!(
        screens("{\"screen\":\"Feed\"}", &all, &said),
        [some("Feed"), some("Feed"), some("Detail")]
    );
}

#[test]
fn a_name_counts_up_to_1024_bytes_in_whole_characters() {
    let bytes = |name: String| crate::name_index::cut(&name).len();
    assert_eq!([1_023, 1_024, 1_025].map(|n| bytes("a".repeat(n))), [1_023, 1_024, 1_024]);
    assert_eq!(bytes(format!("{}é", "a".repeat(1_022))), 1_024);
    assert_eq!(bytes(format!("{}é", "a".repeat(1_023))), 1_023);
}
