//! Each trigger, on records as a phone makes them.

use super::*;
use crate::controller::policy::Device;
use tracetee_protocol::remote_config::{
    Blocked, Document, Jank, LowMemory, Named, SectionName, SectionSpan, Trigger,
};
use tracetee_protocol::remote_config::{Triggers as Around, Window};
use tracetee_recorder::layout::Form;

const MAIN: Who = Who { incarnation: 1, lane: 0, tid: 100 };
const OTHER: Who = Who { incarnation: 2, lane: 0, tid: 101 };
const MS: u64 = 1_000_000;

fn watching(opens: Opens) -> Triggers {
    let window = Window { id: "w".into(), opens, max_s: Decimal::whole(10), ..Window::default() };
    let document = Document { windows: vec![window], ..Document::default() };
    let policy = Policy::new(document, &Device::default());
    Triggers::new(&policy, &[0], 100, None)
}

fn around(trigger: Trigger) -> Triggers {
    watching(Opens::Triggers(Around {
        any: vec![trigger],
        before_s: Decimal::whole(1),
        after_s: Decimal::millionths(500_000),
    }))
}

impl Triggers {
    fn slice(&mut self, who: Who, name: &str, from_ms: u64, to_ms: u64) -> Vec<Finding> {
        let begin = format!("B|100|{name}");
        self.see(who, Sight::Record(from_ms * MS, Form::Text, begin.as_bytes()));
        self.see(who, Sight::Record(to_ms * MS, Form::Text, b"E|100"));
        self.take()
    }
}

fn fired(why: &str, from_ms: u64, to_ms: u64) -> Vec<Finding> {
    vec![Finding::Fired { window: 0, why: why.into(), from_ns: from_ms * MS, to_ns: to_ms * MS }]
}

#[test]
fn a_frame_over_the_limit_fires_with_what_is_around_it_and_others_do_not() {
    let mut triggers =
        around(Trigger::Jank(Jank { over_ms: Some(Decimal::whole(40)), ..Jank::default() }));
    for frame in 0..1000 {
        let from = 5000 + frame * 50;
        assert_eq!(triggers.slice(MAIN, "Choreographer#doFrame 7", from, from + 40), []);
        assert_eq!(triggers.slice(MAIN, "inflate", from, from + 49), []);
        assert!(!triggers.wanted().includes(OTHER));
    }
    let expected = fired("jank: 41.0 ms, over 40.0 ms", 89_000, 90_541);
    assert_eq!(triggers.slice(MAIN, "Choreographer#doFrame", 90_000, 90_041), expected);
}

#[test]
fn time_in_which_the_process_stood_still_is_neither_jank_nor_a_blocked_main_thread() {
    let jank = Jank { over_ms: Some(Decimal::whole(700)), ..Jank::default() };
    let mut triggers = around(Trigger::Jank(jank));
    triggers.still = (6_000 * MS, 13_000 * MS);
    assert_eq!(triggers.slice(MAIN, "Choreographer#doFrame 7", 5_990, 13_010), []);
    let expected = fired("jank: 720.0 ms, over 700.0 ms", 4_500, 13_720);
    assert_eq!(triggers.slice(MAIN, "Choreographer#doFrame 8", 5_500, 13_220), expected);
    let mut triggers = around(Trigger::Blocked(Blocked { over_s: Decimal::whole(2) }));
    triggers.still = (6_000 * MS, 13_000 * MS);
    triggers.look_at_main_thread(13_100 * MS, 7_100 * MS);
    assert_eq!(triggers.take(), []);
    triggers.look_at_main_thread(15_100 * MS, 9_100 * MS);
    assert_eq!(triggers.take().len(), 1);
}

#[test]
fn the_limit_may_be_given_in_refresh_periods() {
    let mut triggers =
        around(Trigger::Jank(Jank { over_periods: Decimal::whole(2), ..Jank::default() }));
    assert_eq!(triggers.slice(MAIN, "Choreographer#doFrame", 2000, 2033), []);
    assert_eq!(triggers.slice(MAIN, "Choreographer#doFrame", 2000, 2034).len(), 1);
    triggers.period_ns = 20 * MS;
    assert_eq!(triggers.slice(MAIN, "Choreographer#doFrame", 2000, 2040), []);
}

#[test]
fn several_janks_fire_when_they_come_together() {
    let jank = Jank {
        over_ms: Some(Decimal::whole(20)),
        count: 3,
        within_s: Decimal::whole(1),
        ..Jank::default()
    };
    let mut triggers = around(Trigger::Jank(jank));
    for (from, expected) in [
        (2000, vec![]),
        (2900, vec![]),
        // The first is too long ago.
        (3100, vec![]),
        (3500, fired("jank: 30.0 ms, over 20.0 ms, 3 of them", 1900, 4030)),
        // They count once.
        (3600, vec![]),
    ] {
        assert_eq!(
            triggers.slice(MAIN, "Choreographer#doFrame", from, from + 30),
            expected,
            "{from}"
        );
    }
}

#[test]
fn a_main_thread_that_stays_in_a_section_fires_once_while_it_does() {
    let mut triggers = around(Trigger::Blocked(Blocked { over_s: Decimal::whole(4) }));
    triggers.see(MAIN, Sight::Record(2000 * MS, Form::Text, b"B|100|frame"));
    triggers.see(MAIN, Sight::Record(2001 * MS, Form::Text, b"B|100|binder transaction"));
    triggers.look_at_main_thread(5900 * MS, 0);
    assert_eq!(triggers.take(), []);
    triggers.look_at_main_thread(6100 * MS, 0);
    assert_eq!(triggers.take(), fired("main thread blocked for 4100.0 ms", 1000, 6600));
    triggers.look_at_main_thread(9000 * MS, 0);
    assert_eq!(triggers.take(), []);
    // A loop that does not answer is blocked too.
    let mut triggers = around(Trigger::Blocked(Blocked { over_s: Decimal::whole(4) }));
    triggers.look_at_main_thread(6100 * MS, 4100 * MS);
    assert_eq!(triggers.take(), fired("main thread blocked for 4100.0 ms", 1000, 6600));
}

#[test]
fn names_fire_on_the_threads_that_are_asked_about() {
    let section = |thread| Trigger::Section(SectionName { name: "load*".into(), thread });
    let mut triggers = around(section(ThreadChoice::Main));
    assert!(!triggers.wanted().includes(OTHER));
    assert_eq!(triggers.slice(MAIN, "unload", 2000, 2001), []);
    assert_eq!(triggers.slice(MAIN, "loadAd", 2000, 2001), fired("section loadAd", 1000, 2500));
    let mut triggers = around(section(ThreadChoice::Any));
    assert!(triggers.wanted().includes(OTHER));
    triggers.see(OTHER, Sight::Record(2000 * MS, Form::Text, b"I|100|load"));
    assert_eq!(triggers.take(), fired("instant load", 1000, 2500));
}

#[test]
fn a_window_goes_from_one_section_to_another() {
    let mut triggers = watching(Opens::Section(SectionSpan {
        from: "activityStart".into(),
        until: Some("reportFullyDrawn".into()),
        thread: ThreadChoice::Main,
    }));
    let expected = fired("section activityStart", 2000, 12_000);
    assert_eq!(triggers.slice(MAIN, "activityStart", 2000, 2100), expected);
    let ended = vec![Finding::Ended { window: 0, at_ns: 3100 * MS }];
    assert_eq!(triggers.slice(MAIN, "reportFullyDrawn", 3000, 3100), ended);
}

#[test]
fn the_app_and_the_memory_fire_too() {
    let mut triggers = around(Trigger::Custom(Named { name: "rage-tap".into() }));
    triggers.custom("other", 2000 * MS);
    assert_eq!(triggers.take(), []);
    triggers.custom("rage-tap", 2000 * MS);
    assert_eq!(triggers.take(), fired("custom rage-tap", 1000, 2500));
    let mut triggers =
        around(Trigger::LowMemory(LowMemory { available_percent: Decimal::whole(5) }));
    assert_eq!(triggers.memory_limit(), Decimal::whole(5));
    triggers.memory(Decimal::millionths(5_100_000), 2000 * MS);
    assert_eq!(triggers.take(), []);
    triggers.memory(Decimal::millionths(4_900_000), 2000 * MS);
    assert_eq!(triggers.take(), fired("low memory: 4.9 % available", 1000, 2500));
    triggers.memory(Decimal::whole(0), 2000 * MS);
    assert_eq!(triggers.take(), fired("low memory: the system says so", 1000, 2500));
}

#[test]
fn a_section_over_missing_records_is_not_taken_for_a_long_one() {
    let mut triggers =
        around(Trigger::Jank(Jank { over_ms: Some(Decimal::whole(40)), ..Jank::default() }));
    triggers.see(MAIN, Sight::Record(2000 * MS, Form::Text, b"B|100|Choreographer#doFrame"));
    triggers.see(MAIN, Sight::Break);
    triggers.see(MAIN, Sight::Record(9000 * MS, Form::Text, b"E|100"));
    assert_eq!(triggers.take(), []);
}
