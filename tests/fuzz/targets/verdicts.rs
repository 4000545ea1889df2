//! Verdicts about frames with any source and numbers, of frames that are there or not: each is a verdict of a frame or
//! counted, only frames in which nothing is drawn are left out of the rates, and a late frame's time adds up.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fmt::Write;
use tracetee_jank::{Evidence, Options, Pipeline, analyze};
use tracetee_trace::read_any;

/// Kind, µs since the previous event, vsync, source, other fields of the verdict, two numbers.
type Event<'a> = (u8, u16, u8, u8, &'a str, u64, u64);

const SOURCES: [&str; 6] =
    ["jank_data", "frame_metrics", "vsync", "undrawn", "surface_jank_data", "none"];

fuzz_target!(|events: Vec<Event<'_>>| {
    let mut text = "# tracer: nop\n# tracetee: {\"pid\":5,\"app\":\"com.app\"}\n".to_owned();
    let (mut at_us, mut verdicts) = (1_000_000, 0);
    for (kind, after_us, vsync, source, fields, one, two) in events {
        at_us += u64::from(after_us) + 1;
        let at = format!(
            "[000] ...1 {}.{:06}: tracing_mark_write:",
            at_us / 1_000_000,
            at_us % 1_000_000
        );
        let _ = match kind % 6 {
            0 => writeln!(text, " app-5 (5) {at} B|5|Choreographer#doFrame {}", vsync % 8),
            1 => writeln!(text, " app-5 (5) {at} E|5"),
            2 => writeln!(text, " app-5 (5) {at} B|5|traversal"),
            3 => writeln!(
                text,
                " RenderThread-7 (5) {at} B|5|DrawFrames {}\n RenderThread-7 (5) {at} E|5",
                vsync % 8
            ),
            _ => {
                verdicts += 1;
                let mut frame = format!("vsync={} ", vsync % 8);
                let _ = match source {
                    0..=63 => write!(frame, "jank={} allowed_ns={one} total_ns={two}", source % 8),
                    64..=127 => write!(frame, "intended_ns={one} allowed_ns={two} total_ns={one}"),
                    _ => write!(frame, "{fields} present_ns={one} expected_ns={two}"),
                };
                let source = SOURCES[usize::from(source) % SOURCES.len()];
                let args = serde_json::json!({ "source": source, "frame": frame });
                writeln!(
                    text,
                    "#@ {{\"args\":{args},\"cat\":\"tracetee.frame\"}}\n tracetee-frames-6 (5) {at} I|5|frame verdict"
                )
            }
        };
    }
    let Ok(trace) = read_any(std::io::Cursor::new(text.into_bytes())) else { return };
    let Ok(analysis) = analyze(&trace, &Options::default()) else { return };
    assert!(analysis.verdicts_left_out <= verdicts, "{} of {verdicts}", analysis.verdicts_left_out);
    if verdicts == 0 {
        assert!(analysis.frames.iter().all(|frame| frame.evidence != Evidence::Platform));
    }
    for frame in analysis.frames.iter().filter(|frame| frame.pipeline == Pipeline::VsyncCallback) {
        assert!(frame.render_ns.is_none(), "{frame:?}");
    }
    let rated = analysis.frames.iter().filter(|frame| frame.pipeline.is_rated()).count();
    assert_eq!(analysis.totals.frames, rated as u64);
    let mut sums = vec![(0, 0); analysis.frames.len()];
    for part in &analysis.parts {
        sums[part.frame].0 += part.self_ns + part.carried_ns;
        sums[part.frame].1 += part.overrun_ns;
    }
    for (frame, sums) in analysis.frames.iter().zip(sums) {
        assert_eq!(sums, if frame.slow { (frame.dur_ns, frame.jank_ns) } else { (0, 0) });
    }
});
