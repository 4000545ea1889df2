//! Tests of the sentences about late frames.

use super::*;
use tracetee_jank::{Evidence, Pipeline};

fn part(thread: ThreadRole, cause: Cause, key: &str, name: &str, overrun_ms: u64) -> PartRow {
    PartRow {
        thread,
        earlier: false,
        cause,
        key: key.to_owned(),
        name: name.to_owned(),
        self_ns: overrun_ms * 2_000_000,
        carried_ns: 0,
        overrun_ns: overrun_ms * 1_000_000,
        states: StateTimes::default(),
        owner: None,
    }
}

fn worst(parts: Vec<PartRow>) -> Worst {
    Worst {
        number: 1,
        pipeline: Pipeline::Views,
        explanation: None,
        at_ns: 0,
        start_ns: 0,
        dur_ns: 30_000_000,
        overrun_ns: 16_000_000,
        delayed_ns: 0,
        ui_ns: 0,
        render_ns: None,
        dropped: 1,
        cadence: 0,
        evidence: Evidence::Buffers,
        outcome: Outcome::App,
        screen: None,
        sentence: String::new(),
        parts,
    }
}

#[test]
fn a_turn_of_a_loop_is_over_the_periods_that_the_loop_takes() {
    for (cadence, over) in [(0, "one period"), (1, "one period"), (2, "2 periods")] {
        let late = Worst { cadence, evidence: Evidence::Markers, ..worst(Vec::new()) };
        assert_eq!(late.sentence(&[], None, 0), format!("16.0 ms over {over}"));
    }
}

#[test]
fn a_frame_that_surfaceflinger_made_late_is_said_to_wait_for_it() {
    let ran = part(ThreadRole::Main, Cause::Section, "bind", "bind", 9);
    let name = "(compositor)";
    let waited = part(ThreadRole::Gpu, Cause::System, name, name, 4);
    let said = |outcome| {
        Worst { outcome, ..worst(vec![ran.clone(), waited.clone()]) }.sentence(&[], Some(MAIN), 0)
    };
    assert!(said(Outcome::System).ends_with("frame waited 8.0 ms for the compositor"));
    assert!(said(Outcome::App).contains(": main "), "{}", said(Outcome::App));
}

fn sentence(parts: Vec<PartRow>) -> String {
    let sentence = worst(parts).sentence(&[], Some(MAIN), 0);
    sentence.strip_prefix("16.0 ms late, 1 vsync missed: ").unwrap_or(&sentence).to_owned()
}

fn sentence_of(cause: Cause, key: &str, name: &str, states: StateTimes) -> String {
    let thread = if name == "(compositor)" { ThreadRole::Gpu } else { ThreadRole::Main };
    let part = PartRow { self_ns: 25_800_000, states, ..part(thread, cause, key, name, 9) };
    // Longer, but frames in time have it, too.
    let (key, name) = ("(pace)".to_owned(), "(no section)".to_owned());
    let pace = PartRow { key, name, self_ns: 26_000_000, overrun_ns: 0, ..part.clone() };
    sentence(vec![pace, part])
}

#[test]
fn a_thread_that_waits_for_a_processor_does_so_whoever_has_it() {
    let none = "(no section)";
    let ready = |cause, key, ms| part(ThreadRole::Main, cause, key, none, ms);
    let ran = part(ThreadRole::Main, Cause::Unexplained, none, none, 5);
    let most = ready(Cause::Preempted, "by bg1", 4);
    let rest = ready(Cause::Runnable, "waiting for a processor", 2);
    assert_eq!(
        sentence(vec![ran.clone(), most, rest.clone()]),
        "main waited for a processor for 12.0 ms, 8.0 ms of them mostly behind bg1"
    );
    let others = ready(Cause::Preempted, "by bg2", 2);
    let all = vec![ran, others, rest.clone(), rest.clone()];
    assert_eq!(sentence(all), "main waited for a processor for 12.0 ms");
    let earlier = PartRow { carried_ns: 7_000_000, ..rest };
    assert_eq!(sentence(vec![earlier]), "main waited for a processor for 4.0 ms");
}

#[test]
fn waits_of_both_threads_for_a_processor_are_told_as_one_unless_one_is_short() {
    let ready = |thread, cause, key, ms| part(thread, cause, key, "draw", ms);
    let said = |main, render| {
        let ran = part(ThreadRole::Render, Cause::Section, "flush", "flush", 4);
        let of_main = ready(ThreadRole::Main, Cause::Preempted, "by bg1", main);
        let of_render = ready(ThreadRole::Render, Cause::Runnable, "waiting", render);
        sentence(vec![ran, of_main, of_render])
    };
    let both =
        "main and render waited for a processor for 20.0 ms, 12.0 ms of them mostly behind bg1";
    assert_eq!(said(6, 4), both);
    let main = "main waited for a processor for 18.0 ms in draw, which bg1 had most of the time";
    assert_eq!(said(9, 2), main);
    assert_eq!(said(2, 9), "render waited for a processor for 18.0 ms in draw");
    assert_eq!(said(4, 1), both.replace("20.0 ms, 12.0", "10.0 ms, 8.0"));
    // The longest wait was in another late frame, which this one waited for.
    let ready = |own_ms: u64, carried_ms: u64| {
        let made = part(ThreadRole::Main, Cause::Runnable, "waiting", "draw", own_ms + carried_ms);
        let (self_ns, carried_ns) = (own_ms * 1_000_000, carried_ms * 1_000_000);
        PartRow { self_ns, carried_ns, ..made }
    };
    let own = sentence(vec![ready(0, 9), ready(7, 0)]);
    assert_eq!(own, "main waited for a processor for 7.0 ms in draw");
    assert_eq!(said(2, 1), "render took 8.0 ms in flush");
}

#[test]
fn the_steps_of_a_section_are_told_as_the_section() {
    let step = |name: &str, ms| part(ThreadRole::Main, Cause::Compose, "prefetch", name, ms);
    let other = part(ThreadRole::Main, Cause::Unexplained, NO_SECTION, NO_SECTION, 6);
    let steps = vec![other, step("recompose", 5), step("onRemembered", 4), step("prefetch", 1)];
    assert_eq!(sentence(steps), "main took 20.0 ms in prefetch (compose)");
    let waits = |name: &str| part(ThreadRole::Main, Cause::Wait, "woken by bg1", name, 5);
    let waited = "main slept 10.0 ms in bind until bg1 woke it";
    assert_eq!(sentence(vec![waits("bind"), waits("draw")]), waited);
}

#[test]
fn a_frame_that_the_app_and_then_surface_flinger_delayed_tells_both() {
    let ran = part(ThreadRole::Render, Cause::Section, "flush", "flush", 8);
    let said =
        |outcome, ns| Worst { outcome, ..worst(vec![ran.clone()]) }.sentence(&[], Some(MAIN), ns);
    let by_app = "16.0 ms late, 1 vsync missed: render took 16.0 ms in flush";
    assert_eq!(said(Outcome::App, 5_000_000), by_app);
    let both = format!("{by_app}; then SurfaceFlinger was 337.0 ms late with it");
    assert_eq!(said(Outcome::App, 337_000_000), both);
    assert!(!said(Outcome::System, 337_000_000).contains("then"));
}

#[test]
fn a_sentence_names_the_thread_that_begins_a_frame_unless_it_is_the_main_thread() {
    let said = |role, begins| {
        let part = part(role, Cause::Section, "bind", "bind", 9);
        worst(vec![part]).sentence(&[], begins, 0)
    };
    let (main, splash) = (Some(MAIN), Some("wm.splash"));
    let by_main = "late, 1 vsync missed: main took 18.0 ms in bind";
    assert!(said(ThreadRole::Main, main).ends_with(by_main));
    assert!(said(ThreadRole::Main, splash).ends_with(": wm.splash took 18.0 ms in bind"));
    // The main thread of an app that swaps buffers itself, as views did, is no game's.
    assert!(said(ThreadRole::Game, main).ends_with(by_main));
    assert!(said(ThreadRole::Game, Some("GLThread")).ends_with(": game took 18.0 ms in bind"));
    assert!(said(ThreadRole::Main, None).ends_with(by_main));
    assert!(said(ThreadRole::Render, splash).ends_with(": render took 18.0 ms in bind"));
}

#[test]
fn a_verb_that_says_the_cause_is_not_followed_by_it() {
    let kernel = StateTimes { uninterruptible_ns: 25_800_000, ..StateTimes::default() };
    let disk = StateTimes { io_ns: 25_800_000, ..StateTimes::default() };
    let waited = "main waited in the kernel for 25.8 ms in draw";
    assert_eq!(sentence_of(Cause::Kernel, "draw", "draw", kernel), waited);
    let said = sentence_of(Cause::Kernel, "rcu_barrier", "draw", kernel);
    assert_eq!(said, format!("{waited} (rcu_barrier)"));
    let said = sentence_of(Cause::Io, "draw", "draw", disk);
    assert_eq!(said, "main waited for a disk for 25.8 ms in draw");
    assert_eq!(sentence_of(Cause::Io, "draw", "draw", kernel), format!("{waited} (io)"));
}

#[test]
fn a_frame_that_no_thread_is_known_to_draw_is_not_said_to_be_the_render_thread_s() {
    let unknown = "(no thread is known to draw it)";
    let part = part(ThreadRole::Render, Cause::Unexplained, unknown, unknown, 10);
    assert_eq!(sentence(vec![part]), "no thread is known to have drawn it in 20.0 ms");
}

#[test]
fn a_cause_of_less_than_a_third_is_said_to_be_one_of_several() {
    let ran = |ms| part(ThreadRole::Main, Cause::Section, "bind", "bind", ms);
    let slept = |ms| part(ThreadRole::Main, Cause::Wait, "woken by bg1", "draw", ms);
    assert_eq!(sentence(vec![ran(6), slept(5), slept(5)]), "main took 12.0 ms in bind");
    let several = "main took 10.0 ms in bind, the largest of several causes";
    let rest = [slept(4), slept(4), slept(3)];
    let with_rest = |part| sentence([vec![part], rest.to_vec()].concat());
    assert_eq!(with_rest(ran(5)), several);
    // Without it the frame would be in time.
    let longer = PartRow { self_ns: 16_000_000, ..ran(5) };
    let rest = vec![slept(10), slept(9), slept(8)];
    assert!(!sentence([vec![longer], rest].concat()).contains("several"));
    // All waits of a thread for a processor are one cause.
    let ready = part(ThreadRole::Main, Cause::Preempted, "by bg1", "bind", 3);
    let waits = vec![ready.clone(), ready, slept(4), slept(4), slept(2)];
    let waited = "main waited for a processor for 12.0 ms, 6.0 ms of them mostly behind bg1";
    assert_eq!(sentence(waits), waited);
}

#[test]
fn many_short_sections_of_a_thread_are_summed_up() {
    let ran = |name: &str, ms| {
        let made = part(ThreadRole::Main, Cause::Section, name, name, ms);
        let states = StateTimes { running_ns: made.self_ns, ..StateTimes::default() };
        PartRow { states, ..made }
    };
    let slept = part(ThreadRole::Render, Cause::Wait, "woken by bg1", "draw", 5);
    let said = |bind, measure, others: u64| {
        let others = part(ThreadRole::Gpu, Cause::Gpu, "fence", "fence", others);
        sentence(vec![slept.clone(), ran("bind", bind), ran("measure", measure), others])
    };
    let all = "main ran 16.0 ms in all, 10.0 ms of that in measure";
    assert_eq!(said(3, 5, 3), all);
    // A single wait says more, if it is a large part of the frame, or not much shorter.
    let single = "render slept 10.0 ms in draw until bg1 woke it";
    assert_eq!(said(3, 5, 0), single);
    assert_eq!(said(4, 3, 4), format!("{single}, the largest of several causes"));
}

#[test]
fn the_delay_by_an_earlier_frame_comes_first_and_its_time_is_not_this_one_s() {
    let drew = PartRow {
        self_ns: 5_000_000,
        carried_ns: 8_000_000,
        ..part(ThreadRole::Render, Cause::Section, "draw", "draw", 4)
    };
    let slept = part(ThreadRole::Main, Cause::Wait, "woken by bg1", "bind", 3);
    let said = |delayed_ns, parts| {
        let late = Worst { delayed_ns, ..worst(parts) };
        let said = late.sentence(&[], Some(MAIN), 0);
        said.strip_prefix("16.0 ms late, 1 vsync missed").unwrap().to_owned()
    };
    let parts = vec![drew.clone(), slept];
    let slept = "main slept 6.0 ms in bind until bg1 woke it";
    assert_eq!(said(5_000_000, parts.clone()), format!(": {slept}"));
    let delayed = ": an earlier frame delayed it by 8.0 ms";
    assert_eq!(said(8_000_000, parts.clone()), format!("{delayed}; {slept}"));
    let none = Worst { overrun_ns: 0, ..worst(parts.clone()) };
    assert!(!none.sentence(&[], Some(MAIN), 0).contains("earlier"));
    let only = PartRow { self_ns: 0, ..drew.clone() };
    assert_eq!(said(8_000_000, vec![only]), delayed);
    // The display shows frames one after the other.
    let waited = PartRow { self_ns: 4_000_000, thread: ThreadRole::Gpu, ..drew };
    let waited = PartRow { name: "(compositor)".to_owned(), ..waited };
    let complete = "the complete frame waited 12.0 ms for the compositor, 8.0 ms of that behind an earlier frame";
    assert_eq!(said(0, vec![waited]), format!(": {complete}"));
}

#[test]
fn a_slow_processor_is_said_as_such_and_time_outside_of_sections_has_no_name() {
    let states = StateTimes { running_ns: 25_800_000, ..StateTimes::default() };
    let said = |cause, key, name| sentence_of(cause, key, name, states);
    let core = said(Cause::Core, "ran on little cores", "flush");
    assert_eq!(core, "main ran 25.8 ms in flush, on little cores");
    let clock = said(Cause::Clock, "ran at a low clock", "flush");
    assert_eq!(clock, "main ran 25.8 ms in flush, at a low clock");
    let none = said(Cause::Unexplained, "1.ui (no section)", "1.ui (no section)");
    assert_eq!(none, "main ran 25.8 ms");
}

#[test]
fn a_sentence_of_a_wait_goes_on_to_the_thread_that_was_waited_for() {
    let step = |depth, thread: &str, state, ms: u64, what: &str| Step {
        from_ns: 0,
        to_ns: ms * 1_000_000,
        tid: None,
        thread: thread.to_owned(),
        pid: None,
        what: what.to_owned(),
        state,
        cpu: None,
        woken_by: None,
        depth,
        joined: 1,
    };
    let main = |ms| step(0, "main", ThreadState::Running, ms, "traversal");
    let held = |thread, state, ms, what| step(1, thread, state, ms, what);
    let lock = part(ThreadRole::Main, Cause::Lock, "a held by b", "bind", 10);
    let lock = PartRow { owner: Some("bg1".to_owned()), ..lock };
    let wait = part(ThreadRole::Main, Cause::Wait, "woken by bg1", "bind", 10);
    let said = |part: &PartRow, path: &[Step]| meanwhile(part, path).unwrap_or_default();
    let path = [
        main(5),
        held("bg1", ThreadState::Io, 6, "fsync"),
        held("bg1", ThreadState::Running, 7, "COMMIT"),
        held("bg1", ThreadState::Io, 6, "fsync"),
        main(5),
        // Another wait of the frame.
        held("bg2", ThreadState::Running, 30, "(no section)"),
    ];
    for part in [&lock, &wait] {
        assert_eq!(said(part, &path), "; meanwhile bg1 waited for a disk for 12.0 ms in fsync");
    }
    let of_bg2 = PartRow { owner: Some("bg2".to_owned()), self_ns: 30_000_000, ..lock.clone() };
    assert_eq!(said(&of_bg2, &path), "; meanwhile bg2 ran 30.0 ms");
    // The holder waits for a third thread, which makes most of the time.
    let through = [
        held("bg1", ThreadState::Running, 1, "COMMIT"),
        step(2, "bg2", ThreadState::Running, 19, "gc"),
    ];
    assert_eq!(said(&lock, &through), "; meanwhile bg2 ran 19.0 ms in gc");
    let longer = PartRow { self_ns: 29_000_000, ..of_bg2 };
    assert_eq!(said(&longer, &path), "");
    // Nothing took most of it; it slept; it did short steps; the path is not known.
    assert_eq!(said(&lock, &path[2..3]), "");
    assert_eq!(said(&lock, &[held("bg1", ThreadState::Asleep, 20, "bind")]), "");
    let short = Step { joined: 2, ..held("bg1", ThreadState::Running, 20, "(short steps)") };
    assert_eq!(said(&lock, &[short]), "");
    assert_eq!(said(&lock, &[]), "");
}

#[test]
fn a_sentence_of_a_wait_names_the_thread_that_worked_though_another_one_woke_it() {
    let step = |depth, tid, thread: &str, state, ms: u64| Step {
        from_ns: 0,
        to_ns: ms * 1_000_000,
        tid,
        thread: thread.to_owned(),
        pid: None,
        what: "(no section)".to_owned(),
        state,
        cpu: None,
        woken_by: None,
        depth,
        joined: if tid.is_none() { 9 } else { 1 },
    };
    use ThreadState::{Runnable, Running, Unknown};
    let main = step(0, Some(1), "main", Running, 2);
    let wait = part(ThreadRole::Main, Cause::Wait, "woken by io", "(no section)", 10);
    let said = |part: &PartRow, path: &[Step]| meanwhile(part, path).unwrap_or_default();
    // The short steps of the thread that passes the answer on are joined to others.
    let gpu = |state, ms| step(2, Some(9), "gpu", state, ms);
    let short = |ms| step(1, None, "", Unknown, ms);
    let path = [main.clone(), short(2), gpu(Running, 8), gpu(Runnable, 6), gpu(Running, 1)];
    let path = [&path[..], &[short(4), main.clone()]].concat();
    let expected = "; meanwhile gpu ran 9.0 ms and waited for a processor for 6.0 ms";
    let longer = PartRow { self_ns: 14_000_000, ..wait.clone() };
    assert_eq!(said(&wait, &path), expected);
    // The path's waits belong to another part if their sum differs from this part's time by more than a quarter.
    assert_eq!(said(&longer, &path), "");
    assert_eq!(said(&PartRow { self_ns: 27_000_000, ..wait }, &path), "");
    // Threads of one name are told apart.
    let key = "woken by another render";
    let wait = part(ThreadRole::Render, Cause::Wait, key, "draw", 10);
    let render = |tid, ms| step(1, Some(tid), "render", Running, ms);
    let path = |ms| [main.clone(), render(7, 9), render(8, ms), main.clone()];
    assert_eq!(said(&wait, &path(10)), "; meanwhile render 8 ran 10.0 ms");
    assert_eq!(said(&wait, &path(8)), "");
}

#[test]
fn a_section_s_name_may_end_with_a_parenthesis() {
    let release = part(ThreadRole::Main, Cause::Section, "release(#)", "release(#)", 9);
    assert_eq!(sentence(vec![release]), "main took 18.0 ms in release(#)");
}

#[test]
fn a_frame_s_sentence_says_what_the_thread_did_how_long_and_until_when() {
    let none = StateTimes::default();
    let asleep = StateTimes { asleep_ns: 25_800_000, ..none };
    let ready = StateTimes { runnable_ns: 20_000_000, running_ns: 5_800_000, ..none };
    for (cause, key, name, states, expected) in [
        (Cause::Sleep, "bind", "bind", asleep, "main slept 25.8 ms in bind until a timer woke it"),
        (
            Cause::Wait,
            "woken by bg1",
            "(no section)",
            asleep,
            "main slept 25.8 ms until bg1 woke it",
        ),
        (
            Cause::System,
            "woken by SurfaceFlinger's app",
            "(no section)",
            asleep,
            "main slept 25.8 ms until SurfaceFlinger's app woke it",
        ),
        (
            Cause::Wait,
            "for an unknown waker",
            "(no section)",
            asleep,
            "main slept 25.8 ms, its waker is not known",
        ),
        (
            Cause::Wait,
            "awaitImage (waker not recorded)",
            "awaitImage",
            asleep,
            "main slept 25.8 ms in awaitImage, its waker is not recorded",
        ),
        (
            Cause::Swap,
            "bind",
            "bind",
            StateTimes { io_ns: 25_800_000, ..none },
            "main waited for swapped-out memory for 25.8 ms in bind",
        ),
        (
            Cause::Preempted,
            "by bg1",
            "bind",
            ready,
            "main waited for a processor for 25.8 ms in bind, which bg1 had most of the time",
        ),
        (
            Cause::Lock,
            "a held by b",
            "bind",
            asleep,
            "main slept 25.8 ms in bind (lock: a held by b)",
        ),
        (
            Cause::Lock,
            "a held by b",
            "monitor contention: a held by b",
            asleep,
            "main slept 25.8 ms in monitor contention: a held by b (lock)",
        ),
        (
            Cause::Buffer,
            "dequeueBuffer",
            "dequeueBuffer",
            asleep,
            "main slept 25.8 ms in dequeueBuffer until a buffer was free",
        ),
        (Cause::Inflate, "inflate", "inflate", none, "main took 25.8 ms in inflate"),
        (
            Cause::System,
            "(compositor)",
            "(compositor)",
            none,
            "the complete frame waited 25.8 ms for the compositor",
        ),
    ] {
        assert_eq!(sentence_of(cause, key, name, states), expected);
    }
}
