//! Whom a sleep is given to: the render thread, a binder call, its receiver, the compositor; and when nobody is known.

use crate::tests::sched_text::{
    FLUTTER_RASTER, FLUTTER_UI, MAIN, OTHER_RASTER, OTHER_UI, PEER, RENDER, Text, WORKER,
};
use crate::{Analysis, Cause, Options, analyze};

const HZ_100: &str = "{\"refresh_hz\":100,\"pid\":100}";

/// A frame from 10 to 40 ms whose section, from 12 to 38 ms, sleeps from 13 to 37 in this state; the caller ends the sleep.
fn asleep(section: &str, state: &str, end: impl FnOnce(&mut Text)) -> Analysis {
    let mut text = Text::new(HZ_100);
    text.switch(9_000, 0, 0, "R", MAIN);
    text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
    text.slice(MAIN, 12_000, 38_000, section);
    text.switch(13_000, 0, MAIN, state, 0);
    end(&mut text);
    text.switch(37_500, 0, 0, "R", MAIN);
    text.mark(MAIN, 40_000, "E|100");
    text.slice(RENDER, 39_000, 40_000, "DrawFrame");
    analyze(&text.trace(), &Options::default()).unwrap()
}

/// Time in ms of a cause and key.
fn ms(analysis: &Analysis, cause: Cause, key: &str) -> u64 {
    let parts = analysis.parts.iter().filter(|part| part.cause == cause && &*part.key == key);
    parts.map(|part| part.self_ns).sum::<u64>() / 1_000_000
}

fn render_works(text: &mut Text) {
    text.switch(12_500, 1, 0, "R", RENDER);
    text.slice(RENDER, 14_000, 30_000, "flush commands");
    text.switch(36_000, 1, RENDER, "S", 0);
}

#[test]
fn a_wait_for_the_render_thread_follows_it_if_it_is_the_waker_or_none_is_known() {
    let flushed = |section, end: &dyn Fn(&mut Text)| {
        let analysis = asleep(section, "S", |text| {
            render_works(text);
            end(text);
        });
        ms(&analysis, Cause::Graphics, "flush commands")
    };
    let by = |tid| move |text: &mut Text| text.wake(37_000, tid, MAIN);
    // By name or by the waker; without a waker it is the only render thread.
    assert_eq!(flushed("postAndWait", &by(RENDER)), 16);
    assert_eq!(flushed("Feed.bind", &by(RENDER)), 16);
    assert_eq!(flushed("postAndWait", &|_| ()), 16);
    assert_eq!(flushed("postAndWait", &by(WORKER)), 0);
    assert_eq!(flushed("postAndWait", &by(0)), 0);
    assert_eq!(flushed("Feed.bind", &|_| ()), 0);
    // In the kernel it waits for something else.
    let kernel = asleep("postAndWait", "D", |text| {
        render_works(text);
        text.wake(37_000, RENDER, MAIN);
    });
    assert_eq!(ms(&kernel, Cause::Graphics, "flush commands"), 0);
}

/// A binder call sent at a time, received by the peer, with a reply at the end of the sleep if somebody wakes.
fn called(sent_us: u64, flags: &str, waker: Option<u32>) -> Analysis {
    asleep("Settings.load", "S", |text| {
        let call = format!(
            "binder_transaction: transaction=5 dest_node=1 dest_proc=900 dest_thread=0 reply=0 flags={flags} code=0x4"
        );
        text.event(MAIN, 0, "...1", sent_us, &call);
        text.switch(13_100, 1, 0, "R", PEER);
        text.event(PEER, 1, "...1", 13_200, "binder_transaction_received: transaction=5");
        text.slice(PEER, 13_300, 36_000, "AIDL::java::IServer::get::server");
        waker.into_iter().for_each(|waker| text.wake(37_000, waker, MAIN));
    })
}

#[test]
fn a_sleep_is_a_binder_call_s_if_the_receiver_ends_it_or_it_begins_within_a_millisecond() {
    let call = |sent_us, waker| {
        ms(&called(sent_us, "0x10", waker), Cause::Binder, "call to a process without a name")
    };
    // The receiver ends it, however long before it was sent.
    assert_eq!(call(10_500, Some(PEER)), 24);
    // Nobody is known to end it.
    assert_eq!([call(12_000, None), call(11_999, None)], [24, 0]);
    // Another one does.
    assert_eq!([call(12_990, Some(WORKER)), call(12_990, Some(0))], [0, 0]);
    // It does not wait for a reply.
    let one_way = called(12_990, "0x01", None);
    assert_eq!(ms(&one_way, Cause::Wait, "Settings.load (waker not recorded)"), 24);
}

#[test]
fn a_call_is_still_waited_for_after_another_thread_had_the_processor() {
    let call = |kept: bool| {
        asleep("Settings.load", "S", |text| {
            let call = "binder_transaction: transaction=5 dest_node=1 dest_proc=900 dest_thread=0 reply=0 flags=0x10 \
                        code=0x4";
            text.event(MAIN, 0, "...1", 10_500, call);
            text.switch(10_600, 0, MAIN, if kept { "R+" } else { "S" }, WORKER);
            text.switch(12_900, 0, WORKER, "S", MAIN);
            text.event(PEER, 1, "...1", 13_200, "binder_transaction_received: transaction=5");
        })
    };
    let ms = |kept| ms(&call(kept), Cause::Binder, "call to a process without a name");
    assert!(ms(true) >= 24, "{}", ms(true));
    assert!(ms(false) < 24, "{}", ms(false));
}

#[test]
fn the_kernel_s_reason_of_a_sleep_needs_no_wake_up() {
    let waited = |at_us| {
        asleep("bindRow", "D", |text| {
            let reason = "sched_blocked_reason: pid=100 iowait=1 caller=filemap_fault+0x10/0x20";
            text.event(0, 0, "...1", at_us, reason);
        })
    };
    assert_eq!(ms(&waited(37_300), Cause::Io, "bindRow"), 24);
    // That of an earlier sleep.
    assert_eq!(ms(&waited(12_500), Cause::Io, "bindRow"), 0);
}

#[test]
fn a_sleep_of_unknown_end_is_for_the_render_thread_if_its_section_ends_then() {
    let waited = |from_us, to_us| {
        let analysis =
            asleep("traversal", "S", |text| text.slice(RENDER, from_us, to_us, "DrawFrame"));
        ms(&analysis, Cause::Wait, "traversal (waker not recorded)")
    };
    assert_eq!(waited(13_100, 37_600), 0);
    // It ends later, or began late.
    assert_eq!([waited(13_100, 38_000), waited(36_000, 37_600)], [24, 24]);
}

#[test]
fn a_call_whose_end_nobody_is_known_to_have_made_goes_through_its_receiver() {
    let path = |analysis: Analysis| {
        let path = analysis.explanations[0].path.clone();
        path.iter()
            .filter(|step| step.tid == Some(PEER))
            .map(|step| step.to_ns - step.from_ns)
            .sum::<u64>()
    };
    assert_eq!(path(called(12_990, "0x10", None)), 24_500_000);
    assert_eq!(path(called(11_000, "0x10", None)), 0);
}

#[test]
fn of_replies_those_within_the_call_count_and_of_one_thread_only() {
    let through = |replies: &[(u32, u64, u64)]| {
        let mut text = Text::new(HZ_100);
        text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
        text.slice(MAIN, 12_000, 38_000, "binder transaction");
        text.mark(MAIN, 40_000, "E|100");
        replies.iter().for_each(|&(tid, from, to)| text.slice(tid, from, to, "binder reply"));
        let analysis = analyze(&text.trace(), &Options::default()).unwrap();
        analysis.explanations[0].path.iter().any(|step| step.tid == Some(PEER))
    };
    assert!(through(&[(PEER, 13_000, 37_000)]) && through(&[(PEER, 12_000, 38_000)]));
    assert!(through(&[(PEER, 12_000, 20_000), (PEER, 21_000, 38_000)]));
    // Begun before the call, ended after it, of another thread too.
    assert!(!through(&[(PEER, 11_999, 20_000)]) && !through(&[(PEER, 20_000, 38_001)]));
    assert!(!through(&[(PEER, 13_000, 20_000), (WORKER, 21_000, 30_000)]));
    // Sixteen are looked at.
    let many = |count: u64| {
        let own = (0..count).map(|n| (PEER, 13_000 + n * 100, 13_050 + n * 100));
        through(&own.chain([(WORKER, 30_000, 31_000)]).collect::<Vec<_>>())
    };
    assert_eq!((many(15), many(16)), (false, true));
    // Those of others outside of the call do not matter, nor does the caller's own.
    assert!(through(&[(WORKER, 1_000, 5_000), (PEER, 13_000, 20_000), (WORKER, 39_000, 39_500)]));
    assert!(through(&[(MAIN, 12_500, 12_900), (PEER, 13_000, 20_000)]));
}

#[test]
fn a_raster_thread_waits_for_the_ui_thread_of_its_own_engine() {
    // A draw of the second engine sleeps from 14 to 37 ms until a timer fires that this thread armed.
    let path = |others: &[u32], ui: u32| {
        let mut text = Text::new(HZ_100);
        for &tid in others {
            text.mark(tid, 1_000, "B|100|x");
            text.mark(tid, 1_001, "E|100");
        }
        text.switch(9_000, 0, 0, "R", OTHER_RASTER);
        text.slice(OTHER_RASTER, 10_000, 40_000, "Rasterizer::DoDraw");
        text.switch(14_000, 0, OTHER_RASTER, "S", 0);
        text.switch(20_000, 1, 0, "R", ui);
        text.wake(37_000, 0, OTHER_RASTER);
        text.switch(37_010, 1, ui, "S", 0);
        text.switch(37_100, 0, 0, "R", OTHER_RASTER);
        let analysis = analyze(&text.trace(), &Options::default()).unwrap();
        analysis.explanations[0].path.iter().any(|step| step.tid == Some(ui))
    };
    let both = [FLUTTER_UI, FLUTTER_RASTER, OTHER_UI];
    assert_eq!((path(&both, OTHER_UI), path(&both, FLUTTER_UI)), (true, false));
    // The only one of the process, whatever its number is.
    assert!(path(&[FLUTTER_UI], FLUTTER_UI));
}

#[test]
fn the_processor_on_which_a_thread_goes_on_says_who_kept_it_waiting() {
    let preempted_ms = |has_other: bool| {
        let mut text = Text::new(HZ_100);
        text.switch(9_000, 5, 0, "R", MAIN);
        text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
        // It leaves processor 5 idle, or to another thread, and goes on on the one that the worker had.
        text.switch(13_000, 5, MAIN, "R", if has_other { PEER } else { 0 });
        text.switch(13_000, 2, 0, "R", WORKER);
        text.switch(27_000, 5, if has_other { PEER } else { 0 }, "S", 0);
        text.switch(36_000, 2, WORKER, "S", 0);
        text.switch(37_000, 2, 0, "R", MAIN);
        text.mark(MAIN, 40_000, "E|100");
        text.slice(RENDER, 39_000, 40_000, "DrawFrame");
        let analysis = analyze(&text.trace(), &Options::default()).unwrap();
        [(Cause::Preempted, "by worker"), (Cause::Runnable, "waiting for a processor")]
            .map(|(cause, key)| ms(&analysis, cause, key))
    };
    assert_eq!((preempted_ms(false), preempted_ms(true)), ([24, 0], [0, 24]));
}

#[test]
fn a_path_goes_through_eight_threads_that_wait_for_one_another() {
    let mut text = Text::new(HZ_100);
    text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
    let threads: Vec<u32> = [MAIN].into_iter().chain(200..210).collect();
    for pair in threads.windows(2) {
        text.switch(9_000, 0, 0, "R", pair[0]);
        text.switch(11_000, 0, pair[0], "S", 0);
        text.wake(39_000, pair[1], pair[0]);
    }
    text.mark(MAIN, 40_000, "E|100");
    let analysis = analyze(&text.trace(), &Options::default()).unwrap();
    let deepest = analysis.explanations[0].path.iter().map(|step| (step.depth, step.tid)).max();
    assert_eq!(deepest, Some((7, Some(206))));
}

#[test]
fn time_of_which_no_state_is_known_is_no_wait_for_a_call() {
    let mut text = Text::new(HZ_100);
    text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
    let call = "binder_transaction: transaction=5 dest_node=1 dest_proc=900 dest_thread=0 reply=0 flags=0x10 code=0x4";
    text.event(MAIN, 0, "...1", 12_990, call);
    text.event(PEER, 1, "...1", 13_200, "binder_transaction_received: transaction=5");
    text.slice(PEER, 13_300, 36_000, "AIDL::java::IServer::get::server");
    text.slice(MAIN, 13_000, 38_000, "Settings.load");
    text.mark(MAIN, 40_000, "E|100");
    let analysis = analyze(&text.trace(), &Options::default()).unwrap();
    assert!(analysis.explanations[0].path.iter().all(|step| step.tid != Some(PEER)));
}

#[test]
fn a_loop_s_wait_that_frames_in_time_have_too_makes_none_late() {
    // A turn each 10 ms: the game's thread waits 6 ms for another one, and swaps. In the last turn it also waits for a
    // processor, or longer for the other thread.
    let found = |is_longer: bool| {
        let mut text = Text::new(HZ_100);
        text.switch(1_000, 0, 0, "R", WORKER);
        let turn = |text: &mut Text, at: u64, wait_us: u64, ready_us: u64| {
            text.switch(at + 1_000, 0, WORKER, "S", 0);
            text.wake(at + 1_000 + wait_us, PEER, WORKER);
            text.switch(at + 1_010 + wait_us + ready_us, 0, 0, "R", WORKER);
            let swap = at + 2_000 + wait_us + ready_us;
            text.slice(WORKER, swap, swap + 2_000, "eglSwapBuffers");
        };
        (1..20).for_each(|n| turn(&mut text, n * 10_000, 6_000, 0));
        if is_longer {
            turn(&mut text, 200_000, 26_000, 0);
        } else {
            turn(&mut text, 200_000, 6_000, 20_000);
        }
        let analysis = analyze(&text.trace(), &Options::default()).unwrap();
        let late = analysis.frames.iter().filter(|frame| frame.slow).collect::<Vec<_>>();
        let [late] = &*late else { panic!("{late:?}") };
        let cause = late.cause.as_ref().map(|(cause, key)| (*cause, key.to_string()));
        let overrun_ns: u64 = analysis.parts.iter().map(|part| part.overrun_ns).sum();
        assert_eq!(overrun_ns, late.jank_ns);
        let pace = analysis.parts.iter().find(|part| part.key.starts_with("(the loop waits"));
        (cause, pace.map(|pace| (pace.self_ns / 1_000, pace.overrun_ns, pace.gain.removed)))
    };
    let waits = (Cause::Runnable, "waiting for a processor".to_owned());
    assert_eq!(found(false), (Some(waits), Some((6_000, 0, false))));
    assert_eq!(found(true), (Some((Cause::Wait, "woken by a binder thread".to_owned())), None));
}
