//! Late frames with samples of the main thread's callstack, as the agent writes them.

use crate::tests::sched_text::{MAIN, Text, WORKER};
use crate::{Analysis, Cause, Options, ThreadRole, analyze};
use std::collections::BTreeMap;
use tracetee_trace::Mapping;

const LOOP: &str = "android.os.Looper.loop";
const BIND: &str = "com.app.Feed.bind";
const FIT: &str = "com.app.Feed.fit";

/// A text with a frame in time, and a late one from 1,016,667 µs for `ms`, in whose steps are these sections.
fn text(ms: u64, sections: &[(u64, u64, &str)]) -> Text {
    text_of(r#"{"app":"com.app","pid":100}"#, ms, sections)
}

fn text_of(about: &str, ms: u64, sections: &[(u64, u64, &str)]) -> Text {
    let mut text = Text::new(about);
    text.slice(MAIN, 1_000_000, 1_001_000, "Choreographer#doFrame 1");
    text.mark(MAIN, FRAME, "B|100|Choreographer#doFrame 2");
    text.mark(MAIN, FRAME, "B|100|traversal");
    for &(from, to, name) in sections {
        text.slice(MAIN, FRAME + from * 1000, FRAME + to * 1000, name);
    }
    text.mark(MAIN, FRAME + ms * 1000, "E|100");
    text.mark(MAIN, FRAME + ms * 1000, "E|100");
    text
}

const FRAME: u64 = 1_016_667;

/// Adds the names of functions, by letters.
fn names(text: &mut Text, functions: &[&str]) {
    let all =
        functions.iter().zip('a'..).map(|(function, code)| format!(r#""{code}":"{function}""#));
    let args: Vec<String> = all.collect();
    text.comment(1_000_500, &format!(r#"{{"args":{{{}}}}}"#, args.join(",")));
    text.mark(WORKER, 1_000_500, "I|100|tracetee: stack names");
}

/// Adds a sample, the time in µs since the frame's begin.
fn sample(text: &mut Text, us: u64, stack: &str, for_us: u64) {
    let args = format!(r#"{{"tid":100,"stack":"{stack}","for_us":{for_us}}}"#);
    text.comment(FRAME + us, &format!(r#"{{"args":{args}}}"#));
    text.mark(WORKER, FRAME + us, "I|100|tracetee: stack");
}

fn analyzed(text: &Text, mapping: Option<&Mapping>) -> Analysis {
    analyze(&text.trace(), &Options { mapping, ..Options::default() }).unwrap()
}

/// The causes of the main thread's time in the late frame, µs.
fn causes(analysis: &Analysis) -> BTreeMap<(Cause, String), u64> {
    let mut sums: BTreeMap<(Cause, String), u64> = BTreeMap::new();
    for part in analysis.parts.iter().filter(|part| part.thread == ThreadRole::Main) {
        *sums.entry((part.cause, part.key.to_string())).or_default() += part.self_ns / 1000;
    }
    sums.retain(|_, us| *us > 0);
    sums
}

fn rows(rows: &[(Cause, &str, u64)]) -> BTreeMap<(Cause, String), u64> {
    rows.iter().map(|&(cause, key, us)| ((cause, key.to_owned()), us)).collect()
}

#[test]
fn a_sample_stands_for_the_time_to_the_middle_of_its_neighbours() {
    use Cause::{Code, Unexplained};
    // From the begin of the frame, in which the sampler has waited, to its end.
    let mut two = text(100, &[]);
    names(&mut two, &[BIND, FIT, LOOP]);
    for (us, stack) in [(34_000, "a c"), (54_000, "a c"), (74_000, "b c"), (94_000, "b c")] {
        sample(&mut two, us, stack, if us == 34_000 { 34_000 } else { 20_000 });
    }
    let analysis = analyzed(&two, None);
    assert_eq!(causes(&analysis), rows(&[(Code, BIND, 64_000), (Code, FIT, 36_000)]));
    let named = analysis.frames.iter().find(|frame| frame.jank_ns > 0).unwrap().cause.clone();
    assert_eq!(named, Some((Code, BIND.into())));

    // A sample alone stands for no more than a period after it.
    let mut one = text(100, &[]);
    names(&mut one, &[BIND, LOOP]);
    sample(&mut one, 34_000, "a b", 34_000);
    let expected = rows(&[(Code, BIND, 54_000), (Unexplained, "traversal", 46_000)]);
    assert_eq!(causes(&analyzed(&one, None)), expected);

    // A time that the sampler has not seen stays unexplained.
    let mut gap = text(100, &[]);
    names(&mut gap, &[BIND, LOOP]);
    sample(&mut gap, 34_000, "a b", 14_000);
    sample(&mut gap, 94_000, "a b", 10_000);
    let expected = rows(&[(Code, BIND, 28_000 + 16_000), (Unexplained, "traversal", 56_000)]);
    assert_eq!(causes(&analyzed(&gap, None)), expected);
}

#[test]
fn only_sections_of_the_app_and_unexplained_time_become_code() {
    use Cause::{Code, Gc, Inflate};
    let sections =
        [(0, 10, "Feed.bind"), (10, 40, "inflate"), (40, 50, "GC: Wait For Completion Alloc")];
    let mut text = text(60, &sections);
    names(&mut text, &[BIND, LOOP]);
    sample(&mut text, 34_000, "a b", 34_000);
    sample(&mut text, 54_000, "a b", 20_000);
    let expected = rows(&[
        (Code, BIND, 20_000),
        (Inflate, "inflate", 30_000),
        (Gc, "GC: Wait For Completion Alloc", 10_000),
    ]);
    assert_eq!(causes(&analyzed(&text, None)), expected);
}

#[test]
fn time_in_which_the_scheduler_shows_a_wait_is_no_code() {
    let mut text = text(60, &[]);
    names(&mut text, &[BIND, LOOP]);
    for us in [34_000, 54_000] {
        sample(&mut text, us, "a b", if us == 34_000 { 34_000 } else { 20_000 });
    }
    text.switch(1_000_100, 0, 0, "R", MAIN);
    text.switch(FRAME + 10_000, 0, MAIN, "S", 0);
    text.wake(FRAME + 30_000, 0, MAIN);
    text.switch(FRAME + 30_000, 0, 0, "R", MAIN);
    let causes = causes(&analyzed(&text, None));
    assert_eq!(causes.get(&(Cause::Code, BIND.to_owned())), Some(&40_000), "{causes:?}");
    assert_eq!(causes.get(&(Cause::Sleep, "traversal".to_owned())), Some(&20_000), "{causes:?}");
}

#[test]
fn the_deepest_function_of_the_app_names_the_time() {
    for (about, functions, expected) in [
        ("the app calls the platform", &["java.util.HashMap.get", BIND, FIT, LOOP][..], BIND),
        ("a library of others calls", &["com.squareup.moshi.Json.read", BIND, LOOP], BIND),
        (
            "no function of the app",
            &["com.ads.Banner.load", "com.ads.Main.run", LOOP],
            "com.ads.Banner.load",
        ),
        ("a rule has removed it", &["#1a2b3c4d", BIND, LOOP], BIND),
        ("obfuscated", &["java.lang.Object.wait", "a.b.c", LOOP], "com.app.Row.draw"),
    ] {
        let mut text = text(60, &[]);
        names(&mut text, functions);
        let stack: Vec<String> = ('a'..).take(functions.len()).map(String::from).collect();
        sample(&mut text, 34_000, &stack.join(" "), 34_000);
        sample(&mut text, 54_000, &stack.join(" "), 20_000);
        let mapping = Mapping::parse("com.app.Row -> a.b:\n    void draw() -> c\n").unwrap();
        let found = causes(&analyzed(&text, Some(&mapping)));
        assert_eq!(found, rows(&[(Cause::Code, expected, 60_000)]), "{about}");
    }
    // Only the platform: nothing is explained.
    let mut text = text(60, &[]);
    names(&mut text, &["android.view.View.measure", LOOP]);
    sample(&mut text, 34_000, "a b", 34_000);
    let found = causes(&analyzed(&text, None));
    assert_eq!(found, rows(&[(Cause::Unexplained, "traversal", 60_000)]));
}

#[test]
fn packages_that_the_capture_names_are_the_app_s() {
    for (packages, expected) in [
        ("[]", BIND),
        (r#"["com.squareup"]"#, "com.squareup.moshi.Json.read"),
        // A package's name is not the begin of another's.
        (r#"["com.squareup.mo"]"#, "com.squareup.moshi.Json.read"),
        (r#"["com.ap","org.other","com.app.Feed"]"#, BIND),
        // Also one that is the platform's elsewhere.
        (r#"["java.util"]"#, "java.util.HashMap.get"),
    ] {
        let about = format!(r#"{{"app":"com.app","app_packages":{packages},"pid":100}}"#);
        let mut text = text_of(&about, 60, &[]);
        names(
            &mut text,
            &[
                "java.util.HashMap.get",
                "com.squareup.moshi.Json.read",
                BIND,
                "com.appetite.Ads.load",
                LOOP,
            ],
        );
        sample(&mut text, 34_000, "a b c d e", 34_000);
        sample(&mut text, 54_000, "a b c d e", 20_000);
        let found = causes(&analyzed(&text, None));
        assert_eq!(found, rows(&[(Cause::Code, expected, 60_000)]), "{packages}");
    }
}

#[test]
fn flame_graphs_have_the_functions_of_samples_inside_of_their_sections() {
    let mut text = text(60, &[(0, 40, "Feed.bind")]);
    names(&mut text, &["java.util.HashMap.get", FIT, "android.view.View.layout", BIND, LOOP]);
    sample(&mut text, 34_000, "a b c d e", 34_000);
    sample(&mut text, 54_000, "e", 20_000);
    let analysis = analyzed(&text, None);
    let mut rows: Vec<_> =
        analysis.stacks.iter().map(|of| (&*of.stack, of.self_ns / 1000)).collect();
    rows.retain(|(stack, _)| stack.starts_with("main;Choreographer#doFrame"));
    let bind = "main;Choreographer#doFrame;traversal;Feed.bind";
    let inner = format!("{bind};{BIND};android.view.View.layout;{FIT};java.util.HashMap.get");
    let rest = ("main;Choreographer#doFrame;traversal", 16_000);
    let outer = format!("main;Choreographer#doFrame;traversal;{}", &inner[bind.len() + 1..]);
    assert_eq!(rows, [rest, (&inner, 40_000), (&outer, 4_000)]);
    let parts: u64 = analysis.parts.iter().map(|part| part.self_ns).sum();
    assert_eq!(analysis.stacks.iter().map(|of| of.self_ns).sum::<u64>(), parts);
}

#[test]
fn no_sample_stands_for_time_outside_of_its_frame() {
    let mut text = text(60, &[]);
    // The next frame is late, too, and has no sample.
    text.mark(MAIN, FRAME + 61_000, "B|100|Choreographer#doFrame 3");
    text.mark(MAIN, FRAME + 61_000, "B|100|traversal");
    text.mark(MAIN, FRAME + 121_000, "E|100");
    text.mark(MAIN, FRAME + 121_000, "E|100");
    names(&mut text, &[BIND, LOOP]);
    // It began to wait before the frame did.
    sample(&mut text, 59_000, "a b", 75_000);
    let analysis = analyzed(&text, None);
    let code = analysis.parts.iter().filter(|part| part.cause == Cause::Code);
    let by_frame: Vec<_> = code.map(|part| (part.frame, part.self_ns)).collect();
    assert_eq!(by_frame, [(1, 60_000_000)]);
}

/// Numbers without an order, from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % most
    }
}

/// Fifty runs of forty late frames, each with three of five functions planted one after the other, some in a section. What ran
/// is known to the microsecond; the samples see it as the agent's sampler does, from 34 to 42 ms on, every 20 to 21 ms.
#[test]
fn planted_functions_get_their_time_and_no_others_any() {
    const FUNCTIONS: [&str; 5] =
        ["com.app.A.run", "com.app.B.run", "com.app.C.run", "com.app.D.run", "com.app.E.run"];
    let (mut named, mut frames, mut open_us, mut before_us) = (0, 0, 0, 0);
    let (mut truth, mut found) = (BTreeMap::new(), BTreeMap::new());
    for seed in 0..50 {
        let mut random = Random(seed);
        let mut text = Text::new(r#"{"app":"com.app","pid":100}"#);
        names(&mut text, &FUNCTIONS);
        let mut longest = Vec::new();
        let mut us = 2_000_000;
        for number in 0..40 {
            let begin = us;
            text.mark(MAIN, us, &format!("B|100|Choreographer#doFrame {number}"));
            text.mark(MAIN, us, "B|100|traversal");
            let mut spans = Vec::new();
            let first = random.below(5);
            for turn in 0..3 {
                let function = usize::try_from((first + turn * (1 + random.below(2))) % 5).unwrap();
                let took = 30_000 + random.below(60_000);
                if random.below(3) == 0 {
                    text.slice(MAIN, us, us + took, "Feed.work");
                }
                spans.push((us, us + took, function));
                us += took;
            }
            text.mark(MAIN, us, "E|100");
            text.mark(MAIN, us, "E|100");
            let mut at = begin + 34_000 + random.below(8_000);
            let mut last = begin;
            while at < us {
                let &(_, _, function) = spans.iter().find(|span| at < span.1).unwrap();
                let code = char::from(b'a' + u8::try_from(function).unwrap());
                sample(&mut text, at - FRAME, &code.to_string(), at - last);
                last = at;
                at += 20_000 + random.below(1_000);
            }
            let mut sums = [0; 5];
            for (from, to, function) in spans {
                sums[function] += to - from;
                *truth.entry(FUNCTIONS[function].to_owned()).or_default() += to - from;
            }
            longest.push(sums);
            us += 50_000 + random.below(20_000);
        }
        let analysis = analyzed(&text, None);
        for (frame, sums) in analysis.frames.iter().zip(&longest) {
            frames += 1;
            let cause = frame.cause.clone().unwrap();
            let index = FUNCTIONS.iter().position(|function| **function == *cause.1);
            // One that did not run is never named.
            let ran = index.map_or(0, |index| sums[index]);
            assert!(cause.0 == Cause::Code && ran > 0, "{cause:?} {sums:?}");
            // Samples 20 ms apart cannot tell which of two is longer by less than that.
            named += u64::from(ran + 20_000 >= *sums.iter().max().unwrap());
        }
        for part in analysis.parts.iter().filter(|part| part.thread == ThreadRole::Main) {
            let us = part.self_ns / 1000;
            match part.cause {
                Cause::Code => *found.entry(part.key.to_string()).or_insert(0) += us,
                _ => open_us += us,
            }
            before_us += us;
        }
    }
    assert!(named * 100 >= frames * 95, "{named} of {frames}");
    assert!(open_us * 5 <= before_us, "{open_us} of {before_us} are unexplained still");
    for (function, us) in &truth {
        let found: u64 = found[function];
        assert!(found.abs_diff(*us) * 20 <= *us, "{function}: {found} of {us}");
    }
    assert_eq!(truth.len(), found.len());
}
