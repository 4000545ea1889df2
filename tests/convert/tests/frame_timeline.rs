//! FrameTimeline's frames with types of jank, in a trace that this test writes: a process' frames rewritten and a page have
//! them as trace_processor's table `actual_frame_timeline_slice` has those of the original.

#![allow(clippy::unwrap_used, reason = "a test")]

use tracetee_tests::tools::chromium;
use tracetee_tests_convert::{Engine, Message, Random, driven, run_tool, trace};

const COMPOSITOR: u64 = 50;
const APPS: [u64; 2] = [100, 200];
/// The types of jank that the installed trace_processor names: bits 0 (none) to 10 (dropped).
const TYPES: u64 = 11;
/// Fields of a `FrameTimelineEvent`.
const ACTUAL_DISPLAY: u64 = 2;
const EXPECTED_SURFACE: u64 = 3;
const ACTUAL_SURFACE: u64 = 4;
const END: u64 = 5;

/// Frames of two apps and of the display with types of jank, alone and several at once; some never end.
fn janks() -> Vec<u8> {
    let random = &mut Random(32);
    let mut packets = Vec::new();
    for cookie in 1..=900 {
        let from = cookie * 4_000_000;
        let jank = match random.below(4) {
            0 => 1,
            1 | 2 => 1 << random.below(TYPES),
            _ => random.below(1 << TYPES),
        };
        // Three surfaces, or the display's frame among them, to a vsync.
        let (token, present) = (1_000 + cookie / 3, 1 + random.below(4));
        let kind =
            *random.pick(&[ACTUAL_DISPLAY, EXPECTED_SURFACE, ACTUAL_SURFACE, ACTUAL_SURFACE]);
        let start = Message::new().int(1, cookie).int(2, token);
        let start = match kind {
            ACTUAL_DISPLAY => start.int(3, COMPOSITOR).int(4, present).int(7, jank),
            _ => start.int(3, token + 7).int(4, *random.pick(&APPS)).bytes(5, "TX - a.b/C#1"),
        };
        let start = if kind == ACTUAL_SURFACE { start.int(6, present).int(9, jank) } else { start };
        let end = Message::new().int(1, cookie);
        let ends = random.below(40) > 0;
        for (at, field, event) in [(from, kind, start), (from + 3_000_000, END, end)] {
            if field != END || ends {
                let event = Message::new().of(field, &event);
                packets.push(Message::new().int(8, at).int(10, 2).of(76, &event));
            }
        }
    }
    trace(&packets)
}

#[test]
fn frames_written_anew_have_the_types_of_jank_of_the_original() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("janks.pftrace"), janks()).unwrap();
    for pid in APPS {
        // Of one process: through the model, no copy of packets.
        let one = ["convert", "janks.pftrace", "--pid", &pid.to_string(), "-o", "one.pftrace"];
        let _ = run_tool(directory.path(), &one);
        let query = format!(
            "select s.jank_type, count(*) from actual_frame_timeline_slice s join process p using (upid) \
             where s.surface_frame_token is not null and p.pid = {pid} group by 1 order by 1"
        );
        let files = ["janks.pftrace", "one.pftrace"];
        let mut rows = engine.rows(directory.path(), &files, &[&query]).into_iter();
        let [theirs, ours] = [rows.next(), rows.next()].map(|file| file.unwrap().remove(0));
        assert!(theirs.len() > 30, "{theirs:?}");
        assert_eq!(ours, theirs, "process {pid}");
    }
}

#[test]
fn a_page_answers_with_the_frames_that_frame_timeline_displayed() {
    let (Some(engine), Some(chromium)) = (Engine::new(), chromium()) else { return };
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("janks.pftrace"), janks()).unwrap();
    let _ = run_tool(directory.path(), &["convert", "janks.pftrace", "-o", "janks.html"]);
    let script = "return [page.getElementById('answer').textContent, tracetee.rows().map((row) => row.title)];";
    let result = driven(&chromium, &directory.path().join("janks.html"), script);
    let answer = result[0].as_str().unwrap_or_else(|| panic!("{result}"));
    let words: Vec<&str> = answer.split_whitespace().collect();
    let number = |index: usize| words[index].parse::<u64>().unwrap_or_else(|_| panic!("{answer}"));
    let (late, frames) = (number(0), number(2));
    assert!(answer.contains(" frames were late, most because of "), "{answer}");
    // The processes have no names of their own: their layers' packages have.
    assert!(result[1].to_string().contains("a.b "), "{result}");
    // Frames of a process, by vsync: the layers of one frame are one. At least those with a jank are late, at most those
    // that were presented late, too.
    let query = "select count(distinct surface_frame_token), \
                 count(distinct iif(jank_type != 'None', surface_frame_token, null)), \
                 count(distinct iif(jank_type != 'None' or present_type = 'Late Present', surface_frame_token, null)) \
                 from actual_frame_timeline_slice where surface_frame_token is not null and dur >= 0 group by upid";
    let rows = engine.rows(directory.path(), &["janks.pftrace"], &[query]).remove(0).remove(0);
    let all: Vec<(u64, u64, u64)> =
        rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect();
    let is_process = |&(all, least, most): &_| all == frames && (least..=most).contains(&late);
    assert!(all.iter().any(is_process), "{answer}: {all:?}");
}
