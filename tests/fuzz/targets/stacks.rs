//! Samples of callstacks with any names, stacks, times and details, between any sections: each one that has the form is
//! read, and none that has not; a late frame's time adds up, and no function is a cause that no sample has.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fmt::Write;
use tracetee_convert::{Format, write};
use tracetee_jank::{Cause, Options, analyze};
use tracetee_trace::read_any;

/// Kind, µs since the previous event, two texts, two times.
type Event<'a> = (u8, u16, &'a str, &'a str, u16, u64);

fuzz_target!(|events: Vec<Event<'_>>| {
    let mut text = "# tracer: nop\n# tracetee: {\"pid\":5,\"app\":\"com.app\"}\n".to_owned();
    let (mut at_us, mut whole, mut other) = (1_000_000, 0, 0);
    for (kind, after_us, one, two, ago_us, for_us) in events {
        at_us += u64::from(after_us) + 1;
        let at = format!("{}.{:06}: tracing_mark_write:", at_us / 1_000_000, at_us % 1_000_000);
        let (args, name) = match kind % 6 {
            0 => {
                let _ = writeln!(
                    text,
                    " app-5 (5) [000] ...1 {at} B|5|Choreographer#doFrame {after_us}"
                );
                continue;
            }
            1 => {
                let _ = writeln!(text, " app-5 (5) [000] ...1 {at} E|5");
                continue;
            }
            2 => {
                let function = format!("com.app.{}", two.trim_matches('\0'));
                (serde_json::json!({ one: function }).to_string(), "tracetee: stack names")
            }
            3 => {
                other += 1;
                (one.replace(['\n', '\r'], " "), "tracetee: stack")
            }
            _ => {
                whole += 1;
                let sample = serde_json::json!({ "tid": 5, "stack": one, "ago_us": ago_us, "for_us": for_us });
                (sample.to_string(), "tracetee: stack")
            }
        };
        let _ = writeln!(text, "#@ {{\"args\":{args}}}\n s-6 (5) [000] ...1 {at} I|5|{name}");
    }
    let Ok(trace) = read_any(std::io::Cursor::new(text.into_bytes())) else { return };
    assert!((whole..=whole + other).contains(&trace.samples.len()), "{}", trace.samples.len());
    for sample in &trace.samples {
        assert!(sample.since_ns <= sample.at_ns);
        assert!(trace.stacks.frames(sample.stack).count() <= 256);
    }
    for format in [Format::Pprof, Format::Perfetto] {
        write(&trace, format, std::io::sink()).unwrap();
    }
    let Ok(analysis) = analyze(&trace, &Options::default()) else { return };
    let mut sums = vec![(0, 0); analysis.frames.len()];
    for part in &analysis.parts {
        sums[part.frame].0 += part.self_ns + part.carried_ns;
        sums[part.frame].1 += part.overrun_ns;
        // Names are normalized: digits, ids and the like go.
        assert!(
            part.cause != Cause::Code
                || part.key.starts_with("com.app.")
                || part.key.starts_with("(not"),
            "{}",
            part.key
        );
    }
    for (frame, sums) in analysis.frames.iter().zip(sums) {
        assert_eq!(sums, if frame.slow { (frame.dur_ns, frame.jank_ns) } else { (0, 0) });
    }
    let stacks: u64 = analysis.stacks.iter().map(|stack| stack.self_ns).sum();
    let parts: u64 = analysis.parts.iter().map(|part| part.self_ns).sum();
    assert_eq!(stacks, parts, "the flame graph has the time of the parts");
});
