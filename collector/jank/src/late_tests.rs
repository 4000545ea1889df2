//! When frames are due, and what they waited for: each rule on a trace made by hand, with numbers worked out on paper.

use super::sched_text::{
    FLUTTER_RASTER, FLUTTER_UI, MAIN, PEER, RENDER, SF_APP, SURFACE_FLINGER, Text, WORKER,
};
use super::*;
use tracetee_trace::{ActualFrame, TimelineFrame};

const HZ_100: &str = "{\"refresh_hz\":100,\"pid\":100}";

fn analyzed(text: &Text) -> Analysis {
    analyze(&text.trace(), &Options::default()).unwrap()
}

/// A frame of the views without a vsync id, with a drawing to its end.
fn frame(text: &mut Text, from_us: u64, to_us: u64) {
    text.slice(MAIN, from_us, to_us, "Choreographer#doFrame");
    text.slice(RENDER, to_us - 100, to_us, "DrawFrame");
}

/// Thread, cause, key, time in µs, of the parts of a frame.
fn parts(analysis: &Analysis, frame: usize) -> Vec<(ThreadRole, Cause, String, u64)> {
    let parts = analysis.parts.iter().filter(|part| part.frame == frame);
    parts.map(|part| (part.thread, part.cause, part.key.to_string(), part.self_ns / 1000)).collect()
}

/// Expected start, its source, begin, overrun, in µs.
fn due(analysis: &Analysis, frame: usize) -> (u64, StartSource, u64, u64) {
    let frame = &analysis.frames[frame];
    (frame.start_ns / 1000, frame.start_source, frame.ui_start_ns / 1000, frame.jank_ns / 1000)
}

#[test]
fn time_of_a_late_frame_that_delays_the_next_one_is_counted_once() {
    let mut text = Text::new(HZ_100);
    frame(&mut text, 10_000, 14_000);
    // The frame of 20,000 takes 35 ms; that of 30,000 begins when it has ended.
    text.slice(MAIN, 20_000, 50_000, "Choreographer#doFrame");
    text.slice(MAIN, 20_000, 50_000, "obtainView");
    text.slice(RENDER, 48_000, 55_000, "DrawFrame");
    frame(&mut text, 50_100, 53_100);
    let analysis = analyzed(&text);
    assert_eq!(due(&analysis, 2), (30_000, StartSource::Cadence, 50_100, 13_100));
    let of_main = |frame: usize| {
        let parts = analysis.parts.iter().filter(move |part| part.frame == frame);
        let parts = parts.map(|part| (&*part.key, part.self_ns / 1000, part.carried_ns / 1000));
        parts.collect::<Vec<_>>()
    };
    assert_eq!(of_main(1), [("obtainView", 30_000, 0), ("DrawFrame", 5_000, 0)]);
    assert_eq!(
        of_main(2),
        [("obtainView", 0, 20_000), ("(no section)", 100, 0), ("Choreographer#doFrame", 3_000, 0)]
    );
    // The delay is the second frame's cause all the same, and has its share of what that one is late by.
    assert_eq!(analysis.frames[2].cause.as_ref().map(|(_, key)| &**key), Some("obtainView"));
    let overruns = analysis.parts.iter().filter(|part| part.frame == 2).map(|part| part.overrun_ns);
    assert_eq!(overruns.sum::<u64>(), analysis.frames[2].jank_ns);
    let stacks: u64 = analysis.stacks.iter().map(|stack| stack.self_ns).sum();
    assert_eq!(stacks / 1000, 38_100);
}

#[test]
fn a_handler_before_a_frame_makes_it_late_and_is_its_cause() {
    let mut text = Text::new(HZ_100);
    frame(&mut text, 10_000, 14_000);
    frame(&mut text, 20_000, 24_000);
    // The vsync at 30,000 finds the main thread in a handler of 95 ms.
    text.slice(MAIN, 25_000, 120_000, "com.app.Feed$Handler: onMessage");
    frame(&mut text, 120_100, 124_100);
    frame(&mut text, 130_000, 134_000);
    let analysis = analyzed(&text);
    // Due at 30,000, deadline at 40,000, complete at 124,100.
    assert_eq!(due(&analysis, 2), (30_000, StartSource::Cadence, 120_100, 84_100));
    assert_eq!(analysis.frames[2].deadline_ns, 40_000_000);
    assert_eq!(analysis.frames[2].dur_ns, 94_100_000);
    // 90,000 of the handler, 100 until the frame, 4,000 of the frame.
    assert_eq!(
        parts(&analysis, 2),
        [
            (
                ThreadRole::Main,
                Cause::Section,
                "com.app.Feed$Handler: onMessage".to_owned(),
                90_000
            ),
            (ThreadRole::Main, Cause::Unexplained, "(no section)".to_owned(), 100),
            (ThreadRole::Main, Cause::Unexplained, "Choreographer#doFrame".to_owned(), 4_000),
        ]
    );
    // The next one found the main thread idle.
    assert_eq!(due(&analysis, 3), (130_000, StartSource::Begin, 130_000, 0));
    assert_eq!(analysis.totals.slow, 1);
    // The overrun of 84,100 by shares of 94,100: 80,435.7 of the handler, rounded down.
    assert_eq!(analysis.parts[0].overrun_ns, 80_435_706);
    assert_eq!(analysis.parts.iter().map(|part| part.overrun_ns).sum::<u64>(), 84_100_000);
    let explained = &analysis.explanations[0];
    assert_eq!(
        (explained.frame, &*explained.causes[0].key),
        (2, "com.app.Feed$Handler: onMessage")
    );
}

#[test]
fn a_rate_needs_thirty_percent_of_the_intervals() {
    // Of 80 intervals so many are those of 90 Hz, the others no display's.
    for (of_90_hz, expected_ns) in [(28, 11_111_111), (20, 16_666_667)] {
        let mut text = Text::new("{\"pid\":100}");
        let mut at = 10_000;
        for n in 0..=80 {
            frame(&mut text, at, at + 2_000);
            at += if n < of_90_hz { 11_111 } else { 40_000 + n * 1_700 };
        }
        assert_eq!(analyzed(&text).frame_budget.ns, expected_ns, "{of_90_hz} of 80");
    }
}

#[test]
fn work_that_ends_before_the_vsync_or_leaves_a_pause_after_it_makes_no_frame_late() {
    // Handler from, to; begin of the next frame, due at 30,000 if it was pending.
    for (from, to, begin, expected) in [
        (24_500, 29_000, 30_000, 30_000),
        // A pause of 600 µs without any section: the vsync would have run the frame.
        (25_000, 60_000, 60_600, 60_600),
        // Idle at the vsync, then busy: the frame was not pending, nobody had asked for it.
        (31_000, 60_000, 60_100, 60_100),
        (29_900, 60_000, 60_100, 30_000),
    ] {
        let mut text = Text::new(HZ_100);
        frame(&mut text, 20_000, 24_000);
        text.slice(MAIN, from, to, "handler");
        frame(&mut text, begin, begin + 4_000);
        let found = analyzed(&text).frames[1].start_ns / 1000;
        assert_eq!(found, expected, "handler {from} to {to}, frame at {begin}");
    }
}

#[test]
fn a_thread_that_waits_for_messages_is_not_busy_and_a_loop_around_all_is_no_work() {
    let mut text = Text::new(HZ_100);
    text.mark(MAIN, 1_000, "B|100|android.os.Looper.loop");
    frame(&mut text, 20_000, 24_000);
    text.slice(MAIN, 24_100, 60_000, "android.os.MessageQueue.next");
    frame(&mut text, 60_050, 64_000);
    assert_eq!(due(&analyzed(&text), 1), (60_050, StartSource::Begin, 60_050, 0));
}

#[test]
fn the_frame_behind_a_long_one_is_due_at_the_vsync_that_found_the_long_one_running() {
    let mut text = Text::new(HZ_100);
    frame(&mut text, 20_000, 43_000);
    frame(&mut text, 43_100, 52_000);
    frame(&mut text, 52_100, 56_000);
    let analysis = analyzed(&text);
    assert_eq!(due(&analysis, 0), (20_000, StartSource::Begin, 20_000, 13_000));
    assert_eq!(due(&analysis, 1), (30_000, StartSource::Cadence, 43_100, 12_000));
    // It was asked for at 43,100: the vsync after that is at 50,000.
    assert_eq!(due(&analysis, 2), (50_000, StartSource::Cadence, 52_100, 0));
}

#[test]
fn vsyncs_of_the_trace_tell_when_a_frame_was_due() {
    let mut text = Text::new(HZ_100);
    for (n, us) in [9_700, 19_700, 29_800, 39_700].into_iter().enumerate() {
        text.mark(PEER, us, &format!("C|900|VSYNC-app|{}", n % 2));
    }
    frame(&mut text, 20_000, 24_000);
    text.slice(MAIN, 24_200, 44_000, "handler");
    frame(&mut text, 44_100, 48_000);
    let analysis = analyzed(&text);
    assert_eq!(due(&analysis, 0), (19_700, StartSource::Vsync, 20_000, 0));
    // The edge at 29,800 was pending; 29,800 + 10,000 - 48,000.
    assert_eq!(due(&analysis, 1), (29_800, StartSource::Vsync, 44_100, 8_200));
}

#[test]
fn a_request_in_the_trace_tells_which_vsync_a_frame_waited_for() {
    let mut text = Text::new(HZ_100);
    frame(&mut text, 20_000, 24_000);
    // Asked for inside of a handler that began when nothing was asked for.
    text.mark(MAIN, 31_000, "B|100|handler");
    text.slice(MAIN, 35_000, 35_010, "Choreographer#scheduleVsyncLocked");
    text.mark(MAIN, 75_000, "E|100");
    frame(&mut text, 75_100, 79_000);
    // The first vsync after 35,000.
    assert_eq!(due(&analyzed(&text), 1), (40_000, StartSource::Cadence, 75_100, 29_000));
}

#[test]
fn the_scheduler_tells_that_work_without_a_section_made_a_frame_late() {
    let mut text = Text::new(HZ_100);
    text.switch(19_000, 0, 0, "R", MAIN);
    frame(&mut text, 20_000, 24_000);
    // It runs on until 60,000 without any section.
    frame(&mut text, 60_000, 64_000);
    text.switch(65_000, 0, MAIN, "S", 0);
    let analysis = analyzed(&text);
    assert_eq!(due(&analysis, 1), (30_000, StartSource::Cadence, 60_000, 24_000));
    assert_eq!(analysis.explanations[0].states[0].times.running_ns, 34_000_000);
}

#[test]
fn frame_timeline_says_when_a_frame_was_due_and_whether_it_was_late() {
    let mut text = Text::new(HZ_100);
    text.slice(MAIN, 22_000, 30_000, "Choreographer#doFrame 7");
    text.slice(RENDER, 29_000, 33_000, "DrawFrames 7");
    text.slice(MAIN, 42_000, 43_000, "Choreographer#doFrame 8");
    text.slice(RENDER, 42_500, 44_000, "DrawFrames 8");
    let mut trace = text.trace();
    let mut add = |token, start_us: u64, end_us: u64, jank: Option<i32>| {
        trace.frames.push(TimelineFrame {
            start_ns: start_us * 1000,
            end_ns: end_us * 1000,
            pid: 100,
            layer: tracetee_trace::NameId::NONE,
            token,
            display_token: token,
            is_display: false,
            actual: jank.map(|jank| ActualFrame { jank, present: 2, ..ActualFrame::default() }),
        });
    };
    add(7, 20_000, 31_000, None);
    add(7, 22_000, 34_500, Some(64));
    // Two periods are allowed; another surface of the same frame had no jank.
    add(8, 40_000, 60_000, None);
    add(8, 42_000, 44_500, Some(1));
    let analysis = analyze(&trace, &Options::default()).unwrap();
    assert_eq!(due(&analysis, 0), (20_000, StartSource::Timeline, 22_000, 3_500));
    assert_eq!(analysis.frames[0].timeline.unwrap().jank, 64);
    assert_eq!(due(&analysis, 1), (40_000, StartSource::Timeline, 42_000, 0));
    assert_eq!(analysis.frames[1].dropped, 0);
    // 2,000 before, 8,000 of the frame, 3,000 of the drawing, 1,500 until it was shown.
    let times: Vec<_> = analysis.explanations[0].states.iter().map(|of| of.thread).collect();
    assert_eq!(times, [ThreadRole::Main, ThreadRole::Render, ThreadRole::Gpu]);
    let gpu = parts(&analysis, 0).pop().unwrap();
    assert_eq!(gpu, (ThreadRole::Gpu, Cause::Gpu, "(graphics processor)".to_owned(), 1_500));
    assert!(!analysis.unknown.contains(&Unknown::Display));
}

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
fn processors_have_classes_and_mean_clocks() {
    let mut text = Text::new(HZ_100);
    let clock = |text: &mut Text, us, cpu, khz: u32| {
        text.event(0, 0, "d..2", us, &format!("cpu_frequency: state={khz} cpu_id={cpu}"));
    };
    clock(&mut text, 1_000, 0, 700_000);
    clock(&mut text, 1_000, 4, 2_400_000);
    text.event(0, 0, "d..2", 1_500, "cpu_frequency_limits: min=300000 max=1700000 cpu_id=0");
    text.switch(9_000, 0, 0, "R", MAIN);
    text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
    // 10 ms at 700 MHz and 10 ms at 1,700: 1,200 in the mean.
    clock(&mut text, 20_000, 0, 1_700_000);
    text.switch(30_000, 0, MAIN, "R", 0);
    text.switch(32_000, 4, 0, "R", MAIN);
    text.mark(MAIN, 40_000, "E|100");
    text.slice(RENDER, 39_000, 40_000, "DrawFrame");
    let analysis = analyzed(&text);
    let uses: Vec<_> = analysis.explanations[0]
        .processors
        .iter()
        .map(|one| (one.cpu, one.core, one.running_ns / 1000, one.mean_khz))
        .collect();
    assert_eq!(
        uses,
        [
            (0, Some(CoreClass::Little), 20_000, Some(1_200_000)),
            (4, Some(CoreClass::Big), 8_000, Some(2_400_000)),
        ]
    );
}

#[test]
fn a_trace_says_what_it_cannot_show_and_only_that() {
    let mut text = Text::new(HZ_100);
    frame(&mut text, 20_000, 24_000);
    use Unknown::{BinderPeers, Clocks, DiskWaits, Display, ThreadStates, Vsyncs, Wakers};
    assert_eq!(analyzed(&text).unknown, [ThreadStates, BinderPeers, Clocks, Vsyncs, Display]);
    text.switch(19_000, 0, 0, "R", MAIN);
    assert_eq!(analyzed(&text).unknown, [Wakers, DiskWaits, BinderPeers, Clocks, Vsyncs, Display]);
    text.wake(18_000, 0, MAIN);
    text.mark(PEER, 19_700, "C|900|VSYNC-app|1");
    text.event(0, 0, "d..2", 1_000, "cpu_frequency: state=700000 cpu_id=0");
    assert_eq!(analyzed(&text).unknown, [DiskWaits, BinderPeers, Display]);
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

/// Twelve frames in time on a processor at 2 GHz, then one of 30 ms at `late_khz` on another; what it did is `step`.
fn slowed(
    late_cpu: u32,
    max_khz: u32,
    late_khz: u32,
    in_time: u32,
    step: &str,
) -> Vec<(Cause, String)> {
    let mut text = Text::new(HZ_100);
    let clock = |text: &mut Text, us, cpu, khz: u32, max: u32| {
        let limits = format!("cpu_frequency_limits: min=300000 max={max} cpu_id={cpu}");
        text.event(0, 0, "d..2", us, &limits);
        text.event(0, 0, "d..2", us, &format!("cpu_frequency: state={khz} cpu_id={cpu}"));
    };
    clock(&mut text, 1_000, 7, 2_000_000, 2_400_000);
    clock(&mut text, 1_000, late_cpu, late_khz, max_khz);
    for n in 0..u64::from(in_time) {
        let at = 10_000 + n * 10_000;
        text.wake(at - 200, 0, MAIN);
        text.switch(at - 100, 7, 0, "R", MAIN);
        frame(&mut text, at, at + 5_000);
        text.switch(at + 5_100, 7, MAIN, "S", 0);
    }
    text.wake(509_800, 0, MAIN);
    text.switch(509_900, late_cpu, 0, "R", MAIN);
    text.mark(MAIN, 510_000, "B|100|Choreographer#doFrame");
    text.slice(MAIN, 511_000, 539_000, step);
    text.mark(MAIN, 540_000, "E|100");
    text.slice(RENDER, 539_900, 540_000, "DrawFrame");
    text.switch(541_000, late_cpu, MAIN, "S", 0);
    let analysis = analyzed(&text);
    let causes = analysis.explanations.last().unwrap().causes.iter();
    causes.map(|of| (of.cause, of.key.clone())).collect()
}

#[test]
fn framework_steps_on_little_cores_or_at_low_clocks_are_slow_by_frames_in_time() {
    let first = |causes: Vec<(Cause, String)>| causes.into_iter().next().unwrap();
    let core = (Cause::Core, "ran on little cores".to_owned());
    let clock = (Cause::Clock, "ran at a low clock".to_owned());
    let no = (Cause::Unexplained, "traversal".to_owned());
    assert_eq!(first(slowed(0, 1_400_000, 1_400_000, 12, "traversal")), core);
    assert_eq!(first(slowed(6, 2_400_000, 800_000, 12, "traversal")), clock);
    // 75 % of the usual clock is not low.
    assert_eq!(first(slowed(6, 2_400_000, 1_500_000, 12, "traversal")), no);
    // A section of the app is the cause on whichever core.
    let section = (Cause::Section, "Feed.bind".to_owned());
    assert_eq!(first(slowed(0, 1_400_000, 1_400_000, 12, "Feed.bind")), section);
    // Nine frames in time say too little.
    assert_eq!(first(slowed(0, 1_400_000, 1_400_000, 9, "traversal")), no);
}

/// A frame of a release build of Flutter: SurfaceFlinger wakes the UI thread at its vsync, which runs for so long and
/// gives its work to the raster thread by a timer.
fn flutter_frame(text: &mut Text, vsync_us: u64, ui_us: u64) {
    let handed_us = vsync_us + 100 + ui_us;
    text.wake(vsync_us, SF_APP, FLUTTER_UI);
    text.switch(vsync_us + 100, 0, 0, "R", FLUTTER_UI);
    text.wake(handed_us - 20, 0, FLUTTER_RASTER);
    text.switch(handed_us, 0, FLUTTER_UI, "S", 0);
    text.switch(handed_us + 50, 1, 0, "R", FLUTTER_RASTER);
    text.slice(FLUTTER_RASTER, handed_us + 900, handed_us + 1_300, "eglSwapBuffers");
    text.switch(handed_us + 1_500, 1, FLUTTER_RASTER, "S", 0);
}

#[test]
fn a_late_frame_of_flutter_without_markers_is_judged_as_with_them() {
    let mut text = Text::new(HZ_100);
    let mut marked = Text::new(HZ_100);
    // The fourth takes the UI thread 27 ms; the last one comes after a pause of 15 ms, in which both threads sleep.
    for (n, ui_us) in [2_000, 2_000, 2_000, 27_000, 2_000, 2_000].into_iter().enumerate() {
        let at = [10_000, 20_000, 30_000, 40_000, 70_000, 95_000][n];
        flutter_frame(&mut text, at, ui_us);
        marked.slice(FLUTTER_UI, at, at + 80 + ui_us, "Animator::BeginFrame");
        marked.slice(FLUTTER_RASTER, at + 80 + ui_us, at + 1_400 + ui_us, "Rasterizer::DoDraw");
    }
    let rows = |text: &Text| -> Vec<_> {
        let analysis = analyzed(text);
        let frames = analysis.frames.iter().map(|frame| {
            assert_eq!(frame.pipeline, Pipeline::Flutter);
            (frame.start_ns / 1000, frame.dur_ns / 1000, frame.dropped, frame.slow, frame.janky)
        });
        // Before the first swap nothing is known.
        frames.skip(1).collect()
    };
    let (found, known) = (rows(&text), rows(&marked));
    assert_eq!(found, known);
    assert_eq!(found[2], (40_000, 28_400, 1, true, true));
    assert_eq!(found.iter().filter(|row| row.3).count(), 1);

    let analysis = analyzed(&text);
    let late = &analysis.explanations[0];
    let first = &late.causes[0];
    assert_eq!((first.cause, &*first.key), (Cause::Unexplained, "1.ui (no section)"));
    assert_eq!(first.self_ns, 26_980_000);
}

#[test]
fn the_path_of_a_raster_thread_goes_through_the_ui_thread_that_armed_its_timer() {
    let mut text = Text::new(HZ_100);
    for (n, at) in [10_000, 20_000, 30_000].into_iter().enumerate() {
        flutter_frame(&mut text, at, 2_000);
        // Marked, so that all of the wait is the raster thread's.
        let late_us = if n == 2 { 30_000 } else { 0 };
        text.slice(FLUTTER_RASTER, at + 10, at + 4_000 + late_us, "Rasterizer::DoDraw");
    }
    let analysis = analyzed(&text);
    let late = &analysis.explanations[0];
    assert!(late.path.iter().any(|step| step.tid == Some(FLUTTER_UI) && step.depth == 1));
}

#[test]
fn a_swap_of_flutter_whose_work_another_thread_gave_begins_with_that() {
    let mut text = Text::new(HZ_100);
    for at in [10_000, 20_000, 30_000] {
        flutter_frame(&mut text, at, 2_000);
    }
    // A video's frame: the UI thread sleeps.
    text.wake(45_000, WORKER, FLUTTER_RASTER);
    text.switch(45_100, 1, 0, "R", FLUTTER_RASTER);
    text.slice(FLUTTER_RASTER, 46_000, 48_000, "eglSwapBuffers");
    text.switch(48_100, 1, FLUTTER_RASTER, "S", 0);
    let analysis = analyzed(&text);
    let last = analysis.frames.last().unwrap();
    assert_eq!((last.start_ns, last.dur_ns, last.slow), (45_000_000, 3_000_000, false));
}

#[test]
fn a_frame_of_flutter_that_waits_for_the_raster_thread_begins_with_its_own_vsync() {
    let mut text = Text::new(HZ_100);
    flutter_frame(&mut text, 10_000, 2_000);
    // The raster thread draws this for 16 ms; the UI thread builds the next one meanwhile and is woken once more.
    text.wake(20_000, SF_APP, FLUTTER_UI);
    text.switch(20_100, 0, 0, "R", FLUTTER_UI);
    text.wake(22_080, 0, FLUTTER_RASTER);
    text.switch(22_100, 0, FLUTTER_UI, "S", 0);
    text.switch(22_150, 1, 0, "R", FLUTTER_RASTER);
    for (from, to) in [(30_000, 33_000), (36_000, 36_200)] {
        text.wake(from, SF_APP, FLUTTER_UI);
        text.switch(from + 100, 0, 0, "R", FLUTTER_UI);
        text.switch(to, 0, FLUTTER_UI, "S", 0);
    }
    text.slice(FLUTTER_RASTER, 37_000, 38_000, "eglSwapBuffers");
    text.slice(FLUTTER_RASTER, 39_000, 40_000, "eglSwapBuffers");
    text.switch(40_100, 1, FLUTTER_RASTER, "S", 0);
    let analysis = analyzed(&text);
    let rows = analysis.frames.iter().skip(1);
    let rows: Vec<_> = rows.map(|of| (of.start_ns, of.dur_ns, of.ui_ns, of.slow)).collect();
    assert_eq!(
        rows,
        [(20_000_000, 18_000_000, 2_080_000, true), (30_000_000, 10_000_000, 3_000_000, false)]
    );
}
