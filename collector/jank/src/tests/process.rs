//! Which process draws, how much of it, and what is said if none or several do.

use crate::tests::{slice, trace};
use crate::{Analysis, Error, Options, OtherProcess, Stopped, Which, analyze};
use tracetee_trace::{ActualFrame, Async, NameId, TimelineFrame, Trace, read};

/// A process named `NAME` with these sections, each as `thread number:name`; one after the other.
type App<'a> = (&'a str, u32, &'a [&'a str]);

fn processes(apps: &[App<'_>]) -> Trace {
    let mut text = "# tracer: nop\n".to_owned();
    for (name, pid, sections) in apps {
        for (n, section) in sections.iter().enumerate() {
            let (thread, section) = section.split_once(':').unwrap();
            let thread: u32 = thread.parse().unwrap();
            let (tid, name) = (pid + thread, if thread == 0 { name } else { "worker" });
            let ms = n * 20;
            text += &format!(
                " {name}-{tid} ({pid}) [000] ...1 1.{ms:03}: tracing_mark_write: B|{pid}|{section}\n"
            );
            text += &format!(
                " {name}-{tid} ({pid}) [000] ...1 1.{:03}: tracing_mark_write: E|{pid}\n",
                ms + 5
            );
        }
    }
    read(text.as_bytes()).unwrap()
}

fn find(trace: &Trace, process: Which<'_>) -> Result<Analysis, Error> {
    analyze(trace, &Options { process, ..Options::default() })
}

/// Frames of process 50, as another process' chooser lists them.
fn frames(sections: &[&str]) -> Option<usize> {
    let first = ["0:Choreographer#doFrame", "0:traversal"].repeat(9);
    let all = find(&processes(&[("first", 10, &first), ("other", 50, sections)]), Which::Pid(10))
        .unwrap();
    all.process.others.first().map(|other| other.frames)
}

fn other(pid: u32, name: &str, frames: usize) -> OtherProcess {
    OtherProcess { pid, name: name.to_owned(), frames }
}

#[test]
fn frames_of_a_process_are_what_it_draws_by_any_pipeline() {
    let (frame, work, draw, swap) =
        ("0:Choreographer#doFrame 1", "0:traversal", "1:DrawFrame", "1:eglSwapBuffers");
    for (sections, expected) in [
        (&[frame, work, frame, work][..], Some(2)),
        (&[frame, "0:performTraversals", frame], Some(1)),
        (&[frame, frame, draw], Some(1)),
        (&[frame, draw, draw], Some(1)),
        (&[frame, "1:traversal"], None),
        // A thread that draws has sections of that name alone, or with a number.
        (&[frame, "0:DrawFrames setSurfaceName"], None),
        // Swaps of a render thread are those of its draws.
        (&[frame, work, draw, swap, swap], Some(1)),
        (&[frame, work, swap, swap, "2:vkQueuePresentKHR"], Some(3)),
        // A frame has one of each.
        (&["1:PlayerLoop", "1:PlayerLoop", "2:eglSwapBuffers"], Some(2)),
        (
            &[
                "1:Animator::BeginFrame",
                "2:GPURasterizer::Draw",
                "2:Rasterizer::DoDraw",
                "2:eglSwapBuffers",
            ],
            Some(1),
        ),
        (&["1:Animator::BeginFrame"], Some(1)),
        (&["1:Engine::BeginFrame"], Some(1)),
        (&["1:Shell::OnAnimatorBeginFrame"], Some(1)),
        (&["1:GPURasterizer::Draw"], Some(1)),
        (&["1:Rasterizer::DoDraw"], Some(1)),
        (&["1:Rasterizer::Draw"], Some(1)),
        (&["1:Rasterizer::DrawToSurfaces"], Some(1)),
        (&["1:Rasterizer::DoDrawing", "1:PlayerLoops", "1:MyeglSwapBuffers"], None),
    ] {
        assert_eq!(frames(sections), expected, "{sections:?}");
    }
}

#[test]
fn of_several_processes_of_a_name_that_with_most_frames_is_taken_if_it_is_one() {
    let frame = ["0:Choreographer#doFrame", "0:traversal"];
    let with = |first: usize, second: usize| {
        let (first, second) = (frame.repeat(first), frame.repeat(second));
        let all = processes(&[("com.app", 10, &first), ("com.app", 50, &second)]);
        find(&all, Which::Named("com.app")).map(|found| found.process.pid)
    };
    assert_eq!((with(1, 2), with(2, 1)), (Ok(50), Ok(10)));
    let both = vec![other(10, "com.app", 1), other(50, "com.app", 1)];
    assert_eq!(with(1, 1), Err(Error::Several(both)));
}

#[test]
fn a_capture_without_records_names_its_process_and_another_one_is_an_error() {
    let read = |text: &str| read(text.as_bytes()).unwrap();
    let about = "# tracer: nop\n# tracetee: {\"pid\":7}\n";
    let found = find(&read(about), Which::App).unwrap();
    assert_eq!((found.process.pid, found.frames.len()), (7, 0));
    let other = format!("{about} a-5 (5) [000] ...1 1.000001: tracing_mark_write: B|5|x\n");
    assert_eq!(find(&read(&other), Which::App), Err(Error::NoSuchProcess(7)));
}

#[test]
fn only_frames_that_frame_timeline_saw_drawn_by_an_app_count() {
    let mut all = processes(&[("a", 10, &["0:x"]), ("b", 50, &["0:x"])]);
    let frame = |pid, is_display, actual| TimelineFrame {
        start_ns: 1_000_000_000,
        end_ns: 1_010_000_000,
        pid,
        layer: NameId::NONE,
        token: 1,
        display_token: 1,
        is_display,
        actual,
    };
    let drawn = Some(ActualFrame { jank: 1, ..ActualFrame::default() });
    // Of the display; only expected.
    all.frames.extend([frame(10, true, drawn), frame(10, false, None)]);
    assert_eq!(find(&all, Which::App), Err(Error::NoFrames));
    all.frames.push(frame(50, false, drawn));
    let found = find(&all, Which::App).unwrap();
    assert_eq!((found.process.pid, found.totals.frames), (50, 1));
    assert_eq!(find(&all, Which::Pid(10)).unwrap().totals.frames, 0);
}

#[test]
fn errors_say_which_process_and_which_option() {
    let several = |count: u32| Error::Several((1..=count).map(|pid| other(pid, "a", 2)).collect());
    for (error, text) in [
        (Error::NoSuchProcess(7), "the trace has no process 7"),
        (Error::NoSuchName("a.b".to_owned()), "the trace has no process named \"a.b\""),
        (several(2), "several processes have this name; choose one with --pid: 1 (a, 2) 2 (a, 2)"),
        (
            Error::NoFrames,
            "no process of the trace has frames: record gfx and view, or FrameTimeline, or choose one with --pid; `tracetee convert` shows a trace without frames",
        ),
        (Error::Stopped(Stopped::Asked), "the analysis was asked to stop"),
    ] {
        assert_eq!(error.to_string(), text);
    }
    let listed = |count| several(count).to_string().matches(" (a, 2)").count();
    assert_eq!((listed(10), listed(13)), (10, 10));
    assert!(several(13).to_string().ends_with(" 10 (a, 2) and 3 more"));
    assert!(several(10).to_string().ends_with(" 10 (a, 2)"));
}

#[test]
fn the_process_of_the_frames_is_given_or_found() {
    let two = [
        slice(("one", 100), "B Choreographer#doFrame", 0, 1_000),
        slice(("two", 200), "B Choreographer#doFrame", 0, 1_000),
    ];
    let text = trace("{}", two.concat().as_slice());
    // Both are of process 100 by their lines; thread 200 is no main thread.
    assert_eq!(analyze(&text, &Options::default()).unwrap().process.pid, 100);
    let text =
        b"# tracer: nop\n one-1 [000] ...1 0.1: tracing_mark_write: B|1|Choreographer#doFrame\n \
        two-2 [000] ...1 0.1: tracing_mark_write: B|2|Choreographer#doFrame\n";
    let several = read(&text[..]).unwrap();
    // Of two that draw as much the first; the others are listed.
    let process = analyze(&several, &Options::default()).unwrap().process;
    assert_eq!((process.pid, &*process.others), (1, &[other(2, "two", 1)][..]));
    let with = |pid| analyze(&several, &Options { process: Which::Pid(pid), ..Options::default() });
    assert_eq!(with(2).unwrap().process.name, "two");
    assert_eq!(with(3).unwrap_err(), Error::NoSuchProcess(3));
    let named =
        |name| analyze(&several, &Options { process: Which::Named(name), ..Options::default() });
    assert_eq!(named("two").unwrap().process.pid, 2);
    assert_eq!(named("three").unwrap_err(), Error::NoSuchName("three".to_owned()));
}

#[test]
fn frames_that_neither_traverse_nor_draw_are_not_what_a_process_draws() {
    let marker = |pid: u32, us: u32, what: &str| {
        format!(" app-{pid} [000] ...1 0.{us:06}: tracing_mark_write: {what}\n")
    };
    let mut text = "# tracer: nop\n".to_owned();
    for at in [1_000, 20_000, 40_000, 60_000] {
        text += &marker(5, at, "B|5|Choreographer#doFrame");
        text += &marker(5, at + 1, "B|5|animation");
        text += &marker(5, at + 2, "E|5");
        text += &marker(5, at + 3, "E|5");
    }
    for (pid, at) in [(6, 100_000), (7, 120_000), (7, 140_000)] {
        text += &marker(pid, at, &format!("B|{pid}|Choreographer#doFrame"));
        text += &marker(pid, at + 1, &format!("B|{pid}|traversal"));
        text += &marker(pid, at + 2, &format!("E|{pid}"));
        text += &marker(pid, at + 3, &format!("E|{pid}"));
    }
    let process = analyze(&read(text.as_bytes()).unwrap(), &Options::default()).unwrap().process;
    // Process 5 has most `doFrame`s.
    assert_eq!((process.pid, &*process.others), (7, &[other(6, "app", 1)][..]));
}

#[test]
fn frames_of_frame_timeline_are_counted_by_jank_and_are_frames_of_their_app() {
    let text = "# tracer: nop\n\
        a-5 (5) [000] ...1 1.000001: tracing_mark_write: B|5|x\n\
        b-6 (6) [000] ...1 1.000002: tracing_mark_write: B|6|y\n";
    let mut trace = read(text.as_bytes()).unwrap();
    assert_eq!(analyze(&trace, &Options::default()), Err(Error::NoFrames));
    let mut idle = read(text.as_bytes()).unwrap();
    idle.threads.retain(|&tid, _| tid == 5);
    assert!(analyze(&idle, &Options::default()).is_ok());
    idle.threads.values_mut().for_each(|thread| thread.pid = Some(0));
    assert_eq!(analyze(&idle, &Options::default()), Err(Error::NoFrames));
    for (token, pid, is_display, jank) in
        [(1, 6, false, 1), (2, 6, false, 16 | 64), (3, 6, false, 1), (4, 5, true, 16)]
    {
        trace.frames.push(TimelineFrame {
            start_ns: 1_000_000_000,
            end_ns: 1_010_000_000,
            pid,
            layer: NameId::NONE,
            token,
            display_token: token,
            is_display,
            actual: Some(ActualFrame { jank, ..Default::default() }),
        });
    }
    let analysis = analyze(&trace, &Options::default()).unwrap();
    assert_eq!(analysis.process.pid, 6);
}

#[test]
fn an_app_that_was_touched_comes_before_one_that_draws_more() {
    let frame = ["0:Choreographer#doFrame", "0:traversal"];
    let (more, fewer) = (frame.repeat(9), frame.repeat(3));
    let mut all = processes(&[
        ("wallpaper", 10, &more),
        ("launcher", 50, &fewer),
        ("silent", 90, &["0:deliverInputEvent"]),
    ]);
    let chosen = |all: &Trace| find(all, Which::App).unwrap().process.pid;
    assert_eq!(chosen(&all), 10);
    let name = all.threads[&90].slices[0].name;
    for pid in [50, 90] {
        all.asyncs.push(Async {
            threads: [pid; 2],
            pid,
            track: None,
            name,
            category: NameId::NONE,
            args: NameId::NONE,
            cookie: 1,
            start_ns: 1_000_000_000,
            end_ns: 1_001_000_000,
        });
    }
    assert_eq!(chosen(&all), 50, "90 draws nothing");
}

#[test]
fn surfaceflinger_swaps_the_buffers_of_the_display_and_has_no_frames_of_an_app() {
    let frames = ["0:Choreographer#doFrame", "0:traversal"].repeat(9);
    let swaps = ["0:handleMessageRefresh", "0:eglSwapBuffers"].repeat(9);
    for (name, sections, is_app) in [
        ("surfaceflinger", &swaps[1..2].repeat(9)[..], false),
        ("/system/bin/surfaceflinger", &swaps[1..2].repeat(9), false),
        ("<...>", &swaps, false),
        ("com.game", &swaps[1..2].repeat(9), true),
    ] {
        let trace = processes(&[("com.app", 10, &frames), (name, 50, sections)]);
        let others = find(&trace, Which::Pid(10)).unwrap().process.others;
        assert_eq!(others.len(), usize::from(is_app), "{name}");
        let frames = find(&trace, Which::Pid(50)).unwrap().frames;
        assert_eq!(frames.is_empty(), !is_app, "{name}");
    }
}
