//! Which process draws, how much of it, and what is said if none or several do.

use crate::{Analysis, Error, Options, Stopped, Which, analyze};
use tracetee_trace::{ActualFrame, NameId, TimelineFrame, Trace, read};

/// A process named `NAME` with these sections, each as `thread number:name`; one after the other.
type App<'a> = (&'a str, u32, &'a [&'a str]);

fn trace(apps: &[App<'_>]) -> Trace {
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
    let all =
        find(&trace(&[("first", 10, &first), ("other", 50, sections)]), Which::Pid(10)).unwrap();
    all.process.others.first().map(|(_, _, frames)| *frames)
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
        let all = trace(&[("com.app", 10, &first), ("com.app", 50, &second)]);
        find(&all, Which::Named("com.app")).map(|found| found.process.pid)
    };
    assert_eq!((with(1, 2), with(2, 1)), (Ok(50), Ok(10)));
    let both = vec![(10, "com.app".to_owned(), 1), (50, "com.app".to_owned(), 1)];
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
    let mut all = trace(&[("a", 10, &["0:x"]), ("b", 50, &["0:x"])]);
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
    assert_eq!((found.process.pid, found.timeline), (50, [("None".to_owned(), 1)].into()));
    assert_eq!(find(&all, Which::Pid(10)).unwrap().timeline, [].into());
}

#[test]
fn errors_say_which_process_and_which_option() {
    let several =
        |count: u32| Error::Several((1..=count).map(|pid| (pid, "a".to_owned(), 2)).collect());
    for (error, text) in [
        (Error::NoSuchProcess(7), "the trace has no process 7"),
        (Error::NoSuchName("a.b".to_owned()), "the trace has no process named \"a.b\""),
        (several(2), "several processes have this name; choose one with --pid: 1 (a, 2) 2 (a, 2)"),
        (Error::NoFrames, "no process of the trace has frames; choose one with --pid"),
        (Error::Stopped(Stopped::Asked), "the analysis was asked to stop"),
    ] {
        assert_eq!(error.to_string(), text);
    }
    let listed = |count| several(count).to_string().matches(" (a, 2)").count();
    assert_eq!((listed(10), listed(13)), (10, 10));
    assert!(several(13).to_string().ends_with(" 10 (a, 2) and 3 more"));
    assert!(several(10).to_string().ends_with(" 10 (a, 2)"));
}
