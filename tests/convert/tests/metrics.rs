//! Start-ups and interactions of a Perfetto trace that this test writes, as `tracetee report` has them and as Perfetto's own
//! `android.startup` and jank CUJ metric do.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};
use tracetee_tests_convert::{Engine, Message, run_tool, trace};

const APP: u64 = 100;
const RENDER: u64 = 101;
/// Another thread with a Choreographer.
const UI: u64 = 102;
const SYSTEM: u64 = 50;

/// Markers (µs, thread, text) and frames (vsync id, begin and end of `doFrame`, µs).
#[derive(Default)]
struct Phone {
    markers: Vec<(u64, u64, String)>,
    frames: Vec<(u64, u64, u64)>,
}

impl Phone {
    fn mark(&mut self, at: u64, tid: u64, text: &str) {
        self.markers.push((at, tid, text.to_owned()));
    }

    fn section(&mut self, tid: u64, from: u64, to: u64, name: &str) {
        self.mark(from, tid, &format!("B|100|{name}"));
        self.mark(to, tid, "E|100");
    }

    fn frame(&mut self, id: u64, ui: [u64; 2], draw: [u64; 2]) {
        self.frame_of(APP, id, ui, draw);
    }

    fn frame_of(&mut self, tid: u64, id: u64, ui: [u64; 2], draw: [u64; 2]) {
        self.section(tid, ui[0], ui[1], &format!("Choreographer#doFrame {id}"));
        self.section(RENDER, draw[0], draw[1], &format!("DrawFrames {id}"));
        self.frames.push((id, ui[0], draw[1] + 300));
    }

    /// The system's record of a launch of the app; before Android 13 it says how the app was started.
    fn launch(&mut self, id: u64, from: u64, to: u64, completed: &str) {
        self.mark(from, SYSTEM, &format!("S|50|launchingActivity#{id}|{id}"));
        self.mark(to, SYSTEM, &format!("F|50|launchingActivity#{id}|{id}"));
        let text = format!("I|50|launchingActivity#{id}:{completed}:com.android.app");
        self.mark(to + 1, SYSTEM, &text);
    }

    /// An interaction and its events: `N|EVENT` on its track, `I|EVENT` with its name.
    fn interaction(&mut self, name: &str, from: u64, to: u64, events: &[(u64, &str)]) {
        self.mark(from, APP, &format!("G|100|J<{name}>|J<{name}>|9"));
        for (at, event) in events {
            let text = match event.split_once('|').unwrap() {
                ("N", event) => format!("N|100|J<{name}>|{event}"),
                (_, event) => format!("I|100|J<{name}>#{event}"),
            };
            self.mark(*at, APP, &text);
        }
        self.mark(to, APP, &format!("H|100|J<{name}>|9"));
    }

    fn trace(mut self) -> Vec<u8> {
        let process = |pid: u64, name: &str| Message::new().int(1, pid).int(2, 1).bytes(3, name);
        let tree = Message::new()
            .of(1, &process(APP, "com.android.app"))
            .of(1, &process(SYSTEM, "system_server"))
            .of(2, &Message::new().int(1, RENDER).int(3, APP).bytes(2, "RenderThread"))
            .of(2, &Message::new().int(1, UI).int(3, APP).bytes(2, "ui"));
        self.markers.sort_by_key(|&(at, ..)| at);
        let mut bundle = Message::new().int(1, 0);
        for (at, tid, text) in &self.markers {
            let print = Message::new().bytes(2, format!("{text}\n"));
            bundle = bundle.of(2, &Message::new().int(1, at * 1000).int(2, *tid).of(3, &print));
        }
        let mut packets =
            vec![Message::new().of(2, &tree), Message::new().int(10, 1).of(1, &bundle)];
        // FrameTimeline: expected and actual frames of the app's surface.
        for (number, (id, from, to)) in (0..).zip(self.frames) {
            for (kind, from, to) in [(3, from - 500, from + 16_000), (4, from, to)] {
                let cookie = number * 2 + kind;
                let mut start = Message::new()
                    .int(1, cookie)
                    .int(2, id)
                    .int(3, id + 1_000)
                    .int(4, APP)
                    .bytes(5, "TX - com.android.app/X#1");
                if kind == 4 {
                    start = start.int(6, 1).int(7, 1).int(8, 0).int(9, 1).int(10, 1).int(11, 1);
                }
                let ends = [(from, kind, start), (to, 5, Message::new().int(1, cookie))];
                for (at, field, event) in ends {
                    let event = Message::new().of(field, &event);
                    packets.push(Message::new().int(8, at * 1000).int(10, 2).of(76, &event));
                }
            }
        }
        trace(&packets)
    }
}

fn phone() -> Vec<u8> {
    let mut phone = Phone::default();
    phone.launch(7, 1_000_000, 1_400_000, "completed");
    phone.section(APP, 1_050_000, 1_090_000, "bindApplication");
    phone.section(APP, 1_100_000, 1_150_000, "activityStart");
    phone.section(APP, 1_151_000, 1_160_000, "activityResume");
    phone.frame(20, [1_170_000, 1_180_000], [1_178_000, 1_190_123]);
    phone.frame(21, [1_200_000, 1_210_000], [1_208_000, 1_215_000]);
    phone.section(APP, 1_300_000, 1_300_500, "reportFullyDrawn() for Main");
    phone.frame(22, [1_320_000, 1_330_000], [1_328_000, 1_341_456]);
    phone.section(APP, 2_000_000, 2_001_000, "activityStop");
    phone.launch(8, 3_000_000, 3_200_000, "completed-hot");
    phone.section(APP, 3_010_000, 3_020_000, "activityRestart");
    phone.section(APP, 3_021_000, 3_025_000, "activityResume");
    phone.frame(30, [3_030_000, 3_039_000], [3_038_000, 3_050_777]);
    phone.section(APP, 3_031_000, 3_031_500, "reportFullyDrawn() for Main");
    let base = 5_000_000;
    for frame in [0, 1, 2, 3, 5, 6, 7] {
        // Frame 3 is late.
        let (at, late) = (base + frame * 20_000, if frame == 3 { 21_000 } else { 0 });
        phone.frame(100 + frame, [at, at + 8_000 + late], [at + 7_000 + late, at + 11_000 + late]);
    }
    let at = |us: u64| base + us;
    phone.interaction("ALL", base - 1_000, at(190_000), &[(at(189_000), "N|FT#end#0")]);
    phone.interaction(
        "BY_VSYNC",
        at(1_000),
        at(130_000),
        &[
            (at(1_001), "N|FT#beginVsync#101"),
            (at(129_000), "N|FT#endVsync#105"),
            (at(129_001), "N|FT#end#0"),
        ],
    );
    for (id, at) in [(201, at(150_000)), (202, at(170_000))] {
        phone.frame_of(UI, id, [at, at + 4_000], [at + 3_000, at + 6_000]);
    }
    let end = [(at(187_000), "N|FT#end#0")];
    phone.interaction("OTHER_THREAD", at(110_000), at(188_000), &end);
    phone.mark(at(110_001), UI, "I|100|J<OTHER_THREAD>#UIThread");
    phone.interaction("CANCELLED", at(2_000), at(150_000), &[(at(149_000), "N|FT#cancel#16")]);
    phone.interaction("OLD", at(3_000), at(150_000), &[(at(149_000), "I|FT#cancel#16")]);
    phone.interaction("SHORT", at(4_000), at(7_000), &[]);
    phone.interaction("SHORT_DONE", at(5_000), at(7_500), &[(at(6_000), "N|FT#end#0")]);
    phone.trace()
}

#[test]
fn start_ups_and_interactions_are_those_of_perfetto() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("phone.pftrace"), phone()).unwrap();
    let queries = [
        "include perfetto module android.startup.startups; \
         include perfetto module android.startup.time_to_display; \
         select ts, time_to_initial_display, time_to_full_display from android_startups \
         join android_startup_time_to_display using (startup_id) order by ts",
        "select run_metric('android/android_jank_cuj.sql')",
        "select cuj_slice_name, count(*) as frames from android_jank_cuj \
         join android_jank_cuj_do_frame_slice using (cuj_id) group by cuj_id order by 1",
    ];
    let theirs = engine.rows(path, &["phone.pftrace"], &queries).remove(0);
    let (report, _) = run_tool(path, &["report", "phone.pftrace", "--format", "json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let rows = |name: &str| report[name].as_array().unwrap().iter();
    let startups: Vec<_> = rows("startups")
        .map(|one| json!([one["start_ns"], one["ttid_ns"], one["ttfd_ns"]]).to_string())
        .collect();
    assert_eq!(startups, theirs[0]);
    assert_eq!(startups.len(), 2);
    let mut interactions: Vec<_> = rows("interactions")
        .map(|one| {
            json!([format!("J<{}>", one["name"].as_str().unwrap()), one["frames"]]).to_string()
        })
        .collect();
    interactions.sort();
    assert_eq!(interactions, theirs[2]);
    assert_eq!(interactions.len(), 4, "the cancelled ones are left out");
}
