//! Rules of long work and ANRs on traces made by hand; times in µs.

use super::LongKind::{Dispatch, Input, Open};
use crate::tests::{MAIN, RENDER, slice, trace};
use crate::{LongKind, Options, analyze};

/// Name, begin and duration in ms, whether it is an ANR, kind.
fn found(
    slices: &[[crate::tests::Line<'_>; 2]],
    more: &[crate::tests::Line<'_>],
) -> Vec<(String, u64, u64, bool, LongKind)> {
    let mut lines = slices.concat();
    lines.extend_from_slice(more);
    let trace = trace("{\"notes_stops\":true}", &lines);
    let analysis = analyze(&trace, &Options::default()).unwrap();
    let long = analysis.long_slices.into_iter();
    long.map(|long| {
        let name = long.name.as_ref().to_owned();
        (name, long.start_ns / 1_000_000, long.dur_ns / 1_000_000, long.anr, long.kind)
    })
    .collect()
}

#[test]
fn waits_for_messages_are_neither_work_nor_a_hang() {
    let waits = [
        "B android.os.MessageQueue.next()Landroid/os/Message;",
        "B nativePollOnce",
        "B epoll_wait",
        "B android::Looper::pollOnce(int)",
    ];
    for wait in waits {
        assert_eq!(found(&[slice(MAIN, wait, 0, 6_000_000)], &[]), [], "{wait}");
        // In a section of the app: 6.2 s, of which it waits 6.
        let around = [slice(MAIN, "B run", 0, 6_200_000), slice(MAIN, wait, 100_000, 6_100_000)];
        assert_eq!(found(&around, &[]), [("run".to_owned(), 0, 200, false, Dispatch)], "{wait}");
    }
}

#[test]
fn a_dispatch_in_the_loop_of_messages_is_judged_by_itself() {
    let handler = "B android.os.Handler.dispatchMessage(Landroid/os/Message;)V";
    let slices = [
        slice(MAIN, "B android.app.ActivityThread.main([Ljava/lang/String;)V", 0, 20_000_000),
        slice(MAIN, "B android.os.Looper.loop()V", 1, 19_999_999),
        slice(MAIN, "B android.os.MessageQueue.next()Landroid/os/Message;", 10, 6_000_000),
        slice(MAIN, handler, 6_000_000, 6_300_000),
        slice(MAIN, handler, 7_000_000, 12_000_000),
        slice(MAIN, "B com.example.Feed.load", 7_100_000, 11_000_000),
        slice(MAIN, handler, 13_000_000, 13_050_000),
    ];
    let name = "android.os.Handler.dispatchMessage(Landroid/os/Message;)V".to_owned();
    let expected =
        [(name.clone(), 6_000, 300, false, Dispatch), (name, 7_000, 5_000, true, Dispatch)];
    assert_eq!(found(&slices, &[]), expected);
}

#[test]
fn each_turn_of_a_loop_has_dispatches_of_its_own() {
    let handler = "B Handler.dispatchMessage";
    let slices = [
        slice(MAIN, "B android.app.ActivityThread.main", 0, 20_000_000),
        slice(MAIN, "B android.os.Looper.loopOnce", 1_000_000, 6_000_000),
        slice(MAIN, handler, 1_100_000, 2_000_000),
        slice(MAIN, "B android.os.Looper.loopOnce", 6_000_000, 13_000_000),
        slice(MAIN, handler, 7_000_000, 7_500_000),
        slice(MAIN, handler, 8_000_000, 8_050_000),
    ];
    let rows: Vec<_> = found(&slices, &[]).into_iter().map(|row| (row.1, row.2, row.3)).collect();
    assert_eq!(rows, [(1_100, 900, false), (7_000, 500, false)]);
}

#[test]
fn a_dispatch_that_does_not_end_hangs_until_the_trace_ends() {
    let open = [
        (MAIN, 1_000_000, "B Db.query"),
        (MAIN, 1_100_000, "I note"),
        (RENDER, 8_000_000, "I last"),
    ];
    assert_eq!(found(&[], &open), [("Db.query".to_owned(), 1_000, 7_000, true, Open)]);
    // Two seconds are no ANR yet.
    let open = [(MAIN, 6_000_000, "B Db.query"), (RENDER, 8_000_000, "I last")];
    assert_eq!(found(&[], &open), [("Db.query".to_owned(), 6_000, 2_000, false, Open)]);
    // A section without an end in which frames run: its end is lost.
    let frame = slice(MAIN, "B Choreographer#doFrame", 2_000_000, 2_010_000);
    assert_eq!(found(&[frame], &[(MAIN, 1_000_000, "B lost"), (RENDER, 8_000_000, "I last")]), []);
}

#[test]
fn input_that_is_not_answered_in_five_seconds_is_an_anr_once() {
    let event = [
        (MAIN, 1_000_000, "S deliverInputEvent src=0x1002 id=0x1|1"),
        (MAIN, 6_000_000, "F deliverInputEvent src=0x1002 id=0x1|1"),
        (MAIN, 7_000_000, "S deliverInputEvent src=0x1002 id=0x2|2"),
        (MAIN, 11_999_999, "F deliverInputEvent src=0x1002 id=0x2|2"),
    ];
    let name = "deliverInputEvent src=# id".to_owned();
    assert_eq!(found(&[], &event), [(name, 1_000, 5_000, true, Input)]);
    // The dispatch that kept it waiting is the same ANR.
    let hang = slice(MAIN, "B Db.query", 900_000, 6_000_000);
    assert_eq!(found(&[hang], &event), [("Db.query".to_owned(), 900, 5_100, true, Dispatch)]);
    // A dispatch that ended as the event came, or began as it was answered, is another ANR.
    let event = [
        (MAIN, 6_000_000, "S deliverInputEvent src=0x1002 id=0x3|3"),
        (MAIN, 11_000_000, "F deliverInputEvent src=0x1002 id=0x3|3"),
    ];
    for (from, to, count) in [
        (1_000_000, 6_000_000, 2),
        (1_000_000, 6_000_001, 1),
        (11_000_000, 16_000_000, 2),
        (10_999_999, 16_000_000, 1),
    ] {
        assert_eq!(found(&[slice(MAIN, "B Db.query", from, to)], &event).len(), count, "{from}");
    }
    // An empty queue waits for nothing.
    let empty =
        [(MAIN, 1_000_000, "C aq:pending:com.example/Main|0"), (RENDER, 9_000_000, "I last")];
    assert_eq!(found(&[], &empty), []);
    // Pending in a window's queue, without an answer until the trace ends.
    let pending = [
        (MAIN, 1_000_000, "C aq:pending:com.example/Main|1"),
        (MAIN, 2_000_000, "C aq:pending:com.example/Main|0"),
        (MAIN, 3_000_000, "C aq:pending:com.example/Main|1"),
        (RENDER, 9_000_000, "I last"),
    ];
    assert_eq!(
        found(&[], &pending),
        [("aq:pending:com.example/Main".to_owned(), 3_000, 6_000, true, Input)]
    );
}
