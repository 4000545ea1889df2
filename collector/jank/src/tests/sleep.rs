//! Waits of the main thread in a late frame, as the scheduler, ART and the kernel tell; the path goes on through
//! whom it waited for. Each rule on a trace made by hand, with numbers worked out on paper.

use crate::tests::late::{HZ_100, analyzed, parts};
use crate::tests::sched_text::{
    MAIN, PEER, RENDER, SF_APP, SURFACE_FLINGER, Text, UNNAMED, WORKER,
};
use crate::{Analysis, Cause, ThreadRole, ThreadState, Unknown};

/// A frame of 30 ms at 10 ms whose section `bind`, from 12 to 38 ms, sleeps from 13 to 37; the caller ends the sleep.
fn sleeping(section: &str, end: impl FnOnce(&mut Text)) -> Analysis {
    let mut text = Text::new(HZ_100);
    text.switch(9_000, 0, 0, "R", MAIN);
    text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
    text.slice(MAIN, 12_000, 38_000, section);
    text.switch(13_000, 0, MAIN, "S", 0);
    end(&mut text);
    text.switch(37_500, 0, 0, "R", MAIN);
    text.mark(MAIN, 40_000, "E|100");
    text.slice(RENDER, 39_000, 40_000, "DrawFrame");
    analyzed(&text)
}

#[test]
fn a_sleep_that_a_timer_ends_is_a_sleep_in_its_section() {
    let analysis = sleeping("Feed.bind", |text| text.wake(37_000, 0, MAIN));
    assert_eq!(
        parts(&analysis, 0),
        [
            (ThreadRole::Main, Cause::Sleep, "Feed.bind".to_owned(), 24_000),
            (ThreadRole::Main, Cause::Runnable, "waiting for a processor".to_owned(), 500),
            // 12,000 to 13,000 and 37,500 to 38,000.
            (ThreadRole::Main, Cause::Section, "Feed.bind".to_owned(), 1_500),
            (ThreadRole::Main, Cause::Unexplained, "Choreographer#doFrame".to_owned(), 4_000),
        ]
    );
    let one = &analysis.explanations[0];
    let times = one.states[0].times;
    assert_eq!((times.running_ns, times.runnable_ns), (5_500_000, 500_000));
    assert_eq!((times.asleep_ns, times.unknown_ns), (24_000_000, 0));
    let path: Vec<_> = one
        .path
        .iter()
        .map(|step| (step.from_ns / 1000, &*step.what, step.state, step.woken_by.as_deref()))
        .collect();
    use ThreadState::{Asleep, Runnable, Running};
    assert_eq!(
        path,
        [
            (10_000, "Choreographer#doFrame", Running, None),
            (12_000, "Feed.bind", Running, None),
            (13_000, "Feed.bind", Asleep, Some("interrupt")),
            (37_000, "Feed.bind", Runnable, Some("interrupt")),
            (37_500, "Feed.bind", Running, None),
            (38_000, "Choreographer#doFrame", Running, None),
        ]
    );
    assert_eq!(analysis.frames[0].cause.as_ref().map(|(cause, _)| *cause), Some(Cause::Sleep));
}

#[test]
fn a_sleep_whose_end_the_trace_does_not_explain_is_no_timer() {
    let analysis = sleeping("Future.get", |_| {});
    let key = "Future.get (waker not recorded)".to_owned();
    let wait = (ThreadRole::Main, Cause::Wait, key, 24_500);
    assert!(parts(&analysis, 0).contains(&wait), "{:?}", parts(&analysis, 0));
}

#[test]
fn the_waker_owns_a_lock_whose_owner_art_does_not_know() {
    let section = "Lock contention on a monitor lock (owner tid: 0)";
    let analysis = sleeping(section, |text| {
        text.switch(12_500, 1, 0, "R", WORKER);
        text.slice(WORKER, 12_600, 36_000, "Cache.put");
        text.wake(37_000, WORKER, MAIN);
    });
    let path = &analysis.explanations[0].path;
    let held = path.iter().find(|step| step.what == "Cache.put").unwrap();
    assert_eq!((held.tid, held.to_ns - held.from_ns), (Some(WORKER), 23_000_000));
    assert!(path.iter().all(|step| step.tid != Some(0)));
}

#[test]
fn a_wait_for_a_thread_of_surface_flinger_names_it() {
    let analysis = sleeping("Feed.bind", |text| {
        text.mark(SURFACE_FLINGER, 5_000, "C|500|VSYNC-app|1");
        text.mark(SF_APP, 5_000, "C|500|VSYNC-app|1");
        text.wake(37_000, SF_APP, MAIN);
    });
    let wait =
        (ThreadRole::Main, Cause::System, "woken by SurfaceFlinger's app".to_owned(), 24_000);
    assert!(parts(&analysis, 0).contains(&wait), "{:?}", parts(&analysis, 0));
    // The critical path names the thread in the same way.
    let path = &analysis.explanations[0].path;
    assert!(path.iter().any(|step| step.thread == "SurfaceFlinger's app"), "{path:?}");
}

#[test]
fn a_wait_for_the_graphics_processor_is_its_time() {
    let analysis = sleeping("waiting for GPU completion 12", |text| text.wake(37_000, 0, MAIN));
    let main = analysis.frames[0].cause.as_ref().map(|(cause, key)| (*cause, &**key));
    assert_eq!(main, Some((Cause::Gpu, "waiting for GPU completion")));
}

#[test]
fn a_sleep_that_another_thread_ends_was_for_that_thread_and_the_path_goes_through_it() {
    let analysis = sleeping("Feed.bind", |text| {
        text.switch(12_500, 1, 0, "R", WORKER);
        text.slice(WORKER, 14_000, 30_000, "Loader.load");
        text.wake(37_000, WORKER, MAIN);
    });
    let wait = (ThreadRole::Main, Cause::Wait, "woken by worker".to_owned(), 24_000);
    assert!(parts(&analysis, 0).contains(&wait), "{:?}", parts(&analysis, 0));
    let path: Vec<_> = analysis.explanations[0]
        .path
        .iter()
        .filter(|step| step.depth == 1)
        .map(|step| (&*step.thread, step.from_ns / 1000, step.to_ns / 1000, &*step.what))
        .collect();
    assert_eq!(
        path,
        [
            ("worker", 13_000, 14_000, "(no section)"),
            ("worker", 14_000, 30_000, "Loader.load"),
            ("worker", 30_000, 37_000, "(no section)"),
        ]
    );
}

#[test]
fn a_wait_of_the_render_thread_is_its_own_and_a_waker_of_its_name_is_another_thread() {
    let mut text = Text::new(HZ_100);
    text.switch(9_000, 0, 0, "R", MAIN);
    text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
    text.switch(11_000, 1, 0, "R", RENDER);
    text.slice(RENDER, 11_000, 36_000, "DrawFrame");
    text.switch(12_000, 0, MAIN, "S", 0);
    text.switch(13_000, 1, RENDER, "S", UNNAMED);
    text.wake(33_000, UNNAMED, RENDER);
    text.switch(33_000, 1, UNNAMED, "S", RENDER);
    text.wake(36_000, RENDER, MAIN);
    text.switch(36_000, 0, 0, "R", MAIN);
    text.mark(MAIN, 40_000, "E|100");
    let analysis = analyzed(&text);
    let key = "woken by another RenderThread".to_owned();
    let wait = (ThreadRole::Render, Cause::Wait, key, 20_000);
    assert!(parts(&analysis, 0).contains(&wait), "{:?}", parts(&analysis, 0));
    let path = &analysis.explanations[0].path;
    let depths = |tid| path.iter().filter(move |one| one.tid == Some(tid)).map(|one| one.depth);
    assert!(depths(RENDER).count() > 1 && depths(RENDER).all(|depth| depth == 0), "{path:?}");
    assert_eq!(depths(UNNAMED).collect::<Vec<_>>(), [1], "{path:?}");
}

#[test]
fn a_wait_for_a_lock_follows_the_owner_even_if_another_thread_wakes() {
    let section = "monitor contention with owner worker (123) at void a.B.c()(B.java:1) waiters=0 \
        blocking from int d.E.f()(E.java:2)";
    let analysis = sleeping(section, |text| {
        text.switch(12_500, 1, 0, "R", WORKER);
        text.slice(WORKER, 12_600, 36_000, "Cache.put");
        text.wake(37_000, RENDER, MAIN);
    });
    let lock = (ThreadRole::Main, Cause::Lock, "d.E.f held by a.B.c".to_owned(), 25_500);
    assert!(parts(&analysis, 0).contains(&lock), "{:?}", parts(&analysis, 0));
    let path = &analysis.explanations[0].path;
    let held = path.iter().find(|step| step.what == "Cache.put").unwrap();
    assert_eq!((held.tid, held.to_ns - held.from_ns), (Some(WORKER), 23_000_000));
}

#[test]
fn a_binder_call_is_attributed_to_the_process_and_its_thread_is_followed() {
    let analysis = sleeping("Settings.load", |text| {
        text.event(
            MAIN,
            0,
            "...1",
            12_990,
            "binder_transaction: transaction=5 dest_node=1 dest_proc=900 dest_thread=0 reply=0 flags=0x10 code=0x4",
        );
        text.switch(13_100, 1, 0, "R", PEER);
        text.event(PEER, 1, "...1", 13_200, "binder_transaction_received: transaction=5");
        text.slice(PEER, 13_300, 36_000, "AIDL::java::IServer::get::server");
        text.wake(37_000, PEER, MAIN);
    });
    let call =
        |cause, key: &str| parts(&analysis, 0).iter().any(|part| part.1 == cause && part.2 == key);
    assert!(call(Cause::Binder, "call to a process without a name"), "{:?}", parts(&analysis, 0));
    let path = &analysis.explanations[0].path;
    let peer = path.iter().find(|step| step.what.starts_with("AIDL")).unwrap();
    assert_eq!((peer.tid, peer.pid, peer.depth), (Some(PEER), Some(900), 1));
    assert!(!analysis.unknown.contains(&Unknown::BinderPeers));
}

#[test]
fn without_binder_events_the_only_reply_in_the_call_is_its_own() {
    let with = |replies: &[u32]| {
        let mut text = Text::new(HZ_100);
        text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
        text.slice(MAIN, 12_000, 38_000, "binder transaction");
        text.mark(MAIN, 40_000, "E|100");
        for &tid in replies {
            text.slice(tid, 13_000, 37_000, "binder reply");
        }
        let path = analyzed(&text).explanations[0].path.clone();
        path.iter().map(|step| (step.tid, (step.to_ns - step.from_ns) / 1000)).collect::<Vec<_>>()
    };
    // Its own time around the reply is the peer's too: nothing says when the thread slept.
    let through =
        [(Some(MAIN), 2_000), (Some(PEER), 1_000), (Some(PEER), 24_000), (Some(PEER), 1_000)];
    assert_eq!(with(&[PEER])[..4], through);
    assert_eq!(with(&[PEER, 902])[1], (Some(MAIN), 26_000));
}

#[test]
fn the_kernel_s_reason_tells_a_disk_from_other_waits() {
    for (io_wait, cause, key) in
        [(1, Cause::Io, "Feed.bind"), (0, Cause::Kernel, "wait_on_page_bit")]
    {
        let mut text = Text::new(HZ_100);
        text.switch(9_000, 0, 0, "R", MAIN);
        text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
        text.slice(MAIN, 12_000, 38_000, "Feed.bind");
        text.switch(13_000, 0, MAIN, "D", 0);
        text.wake(37_000, 0, MAIN);
        let reason = format!(
            "sched_blocked_reason: pid=100 iowait={io_wait} caller=wait_on_page_bit+0x8/0xc0"
        );
        text.event(0, 0, "d.h4", 37_010, &reason);
        text.switch(37_500, 0, 0, "R", MAIN);
        text.mark(MAIN, 40_000, "E|100");
        let analysis = analyzed(&text);
        let wait = (ThreadRole::Main, cause, key.to_owned(), 24_000);
        assert!(parts(&analysis, 0).contains(&wait), "{:?}", parts(&analysis, 0));
        let times = analysis.explanations[0].states[0].times;
        let expected = if io_wait == 1 { (24_000_000, 0) } else { (0, 24_000_000) };
        assert_eq!((times.io_ns, times.uninterruptible_ns), expected);
    }
}

#[test]
fn a_wait_for_the_render_thread_is_what_that_thread_did() {
    let analysis = sleeping("postAndWait", |text| {
        text.switch(12_500, 1, 0, "R", RENDER);
        text.slice(RENDER, 14_000, 30_000, "flush commands");
        text.switch(36_000, 1, RENDER, "S", 0);
        text.wake(37_000, RENDER, MAIN);
    });
    let found = parts(&analysis, 0);
    let render = (ThreadRole::Render, Cause::Graphics, "flush commands".to_owned(), 16_000);
    assert!(found.contains(&render), "{found:?}");
    // The rest of it: 12,000 to 13,000, and from 36,000 on, when the render thread slept without a section.
    let own = (ThreadRole::Main, Cause::RenderWait, "postAndWait".to_owned(), 2_500);
    assert!(found.contains(&own), "{found:?}");
    assert_eq!(found.iter().map(|part| part.3).sum::<u64>(), 30_000);
}

#[test]
fn time_without_a_processor_names_the_thread_that_had_it_for_most_of_it() {
    for (worker_until_us, cause, key) in [
        (36_000, Cause::Preempted, "by worker"),
        (20_000, Cause::Runnable, "waiting for a processor"),
    ] {
        let mut text = Text::new(HZ_100);
        text.switch(9_000, 2, 0, "R", MAIN);
        text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
        text.switch(13_000, 2, MAIN, "R", WORKER);
        text.switch(worker_until_us, 2, WORKER, "S", 0);
        text.switch(37_000, 2, 0, "R", MAIN);
        text.mark(MAIN, 40_000, "E|100");
        text.slice(RENDER, 39_000, 40_000, "DrawFrame");
        let found = parts(&analyzed(&text), 0);
        let wait = (ThreadRole::Main, cause, key.to_owned(), 24_000);
        assert!(found.contains(&wait), "{found:?}");
    }
}
