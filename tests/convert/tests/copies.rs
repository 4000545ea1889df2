//! Perfetto traces that are copied, packet by packet, alone or with others: nothing of them is lost, by trace_processor.

use std::path::Path;
use tracetee_tests::{Tracefs, run, writer};
use tracetee_tests_convert::rows::{HEADER, converted, text};
use tracetee_tests_convert::{Engine, Message, everything, refused, run_tool, trace};

fn write(directory: &Path, name: &str, bytes: impl AsRef<[u8]>) {
    std::fs::write(directory.join(name), bytes).unwrap();
}

fn read(directory: &Path, name: &str) -> Vec<u8> {
    std::fs::read(directory.join(name)).unwrap()
}

/// An event of the kernel in a bundle of the first processor.
fn kernel(at_ns: u64, tid: u64, field: u64, event: &Message) -> Message {
    let event = Message::new().int(1, at_ns).int(2, tid).of(field, event);
    Message::new().int(10, 9).of(1, &Message::new().int(1, 0).of(2, &event))
}

fn switch(at_ns: u64, (prev, prev_tid): (&str, u64), (next, next_tid): (&str, u64)) -> Message {
    let event = Message::new().bytes(1, prev).int(2, prev_tid).int(3, 120).int(4, 1);
    let event = event.bytes(5, next).int(6, next_tid).int(7, 120);
    kernel(at_ns, prev_tid, 4, &event)
}

fn new_task(at_ns: u64, by: u64, tid: u64, flags: u64) -> Message {
    let event = Message::new().int(1, tid).bytes(2, "main").int(3, flags);
    kernel(at_ns, by, 235, &event)
}

/// A slice of a thread, by interned names: its sequence, track, name and times.
fn slice(sequence: u64, tid: u64, name: &str, at_ns: u64) -> Vec<Message> {
    let packet = || Message::new().int(10, sequence);
    let interned = Message::new().of(2, &Message::new().int(1, 1).bytes(2, name));
    let thread = Message::new().int(1, 50).int(2, tid);
    let uuid = 1000 + tid;
    let event = |kind| Message::new().int(9, kind).int(11, uuid);
    vec![
        packet().int(13, 1).of(12, &interned),
        packet().of(60, &Message::new().int(1, uuid).of(4, &thread)),
        packet().int(8, at_ns).int(13, 2).of(11, &event(1).int(10, 1)),
        packet().int(8, at_ns + 500).int(13, 2).of(11, &event(2)),
    ]
}

#[test]
fn a_mapping_changes_names_and_nothing_else() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    // A battery's counters, which the model does not have, and a field that nobody knows.
    let battery = Message::new()
        .int(8, 10_000_000_000)
        .int(10, 77)
        .of(38, &Message::new().int(1, 4_000_000).int(2, 75));
    let unknown = Message::new().int(10, 77).bytes(4000, "a.b.c");
    let method = slice(78, 51, "a.b.c", 10_000_000_000);
    let bytes = [everything(1), trace(&[vec![battery, unknown], method].concat())].concat();
    write(path, "in.pftrace", &bytes);
    write(path, "none.txt", "");
    write(path, "mapping.txt", "com.example.Feed -> a.b:\n    1:5:void bind(int):10:14 -> c\n");
    let (_, said) =
        run_tool(path, &["convert", "in.pftrace", "--mapping", "none.txt", "-o", "o.pftrace"]);
    assert_eq!(said, "");
    assert!(read(path, "o.pftrace") == bytes, "the bytes are the same");
    let _ =
        run_tool(path, &["convert", "in.pftrace", "--mapping", "mapping.txt", "-o", "o.pftrace"]);
    let slices = "select ts, dur, name from slice order by 1, 2, 3";
    let counters = "select ts, name, value from counter join counter_track t on track_id = t.id order by 1, 2, 3";
    let rows = engine.rows(path, &["in.pftrace", "o.pftrace"], &[slices, counters]);
    let mut expected = rows[0][0].clone();
    let renamed = expected.iter_mut().filter(|row| row.contains("\"a.b.c\""));
    assert_eq!(renamed.map(|row| *row = row.replace("a.b.c", "com.example.Feed.bind")).count(), 1);
    assert_eq!(rows[1][0], expected);
    assert!(rows[0][1].iter().any(|row| row.contains("batt")), "{:?}", rows[0][1]);
    assert_eq!(rows[1][1], rows[0][1]);
    let out = read(path, "o.pftrace");
    assert!(out.windows(5).any(|bytes| bytes == b"a.b.c"), "the unknown field is the same");
}

#[test]
fn traces_of_one_clock_keep_their_sequences_apart() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    // All are on sequence 1; the last one is on ours.
    for (name, sequence, tid, slice_name) in
        [("a", 1, 51, "of a"), ("b", 1, 52, "of b"), ("c", 0x7472_6365, 53, "of c")]
    {
        let packets = slice(sequence, tid, slice_name, 10_000 + tid);
        write(path, &format!("{name}.pftrace"), trace(&packets));
    }
    write(
        path,
        "ours.ftrace",
        text(&[("main", 50, 50, 1, "B|50|ours"), ("main", 50, 50, 9, "E|50")]),
    );
    for ours in [&[][..], &["ours.ftrace"]] {
        let inputs = [&["a.pftrace", "b.pftrace", "c.pftrace"], ours].concat();
        let _ = converted(path, &inputs, "o.pftrace");
        let query = "select t.tid, s.name, s.dur from slice s join thread_track k on s.track_id = k.id join thread t using (utid) order by 1";
        let rows = engine.rows(path, &["o.pftrace"], &[query]).remove(0).remove(0);
        let mut expected = vec![r#"[51,"of a",500]"#, r#"[52,"of b",500]"#, r#"[53,"of c",500]"#];
        if !ours.is_empty() {
            expected.insert(0, r#"[50,"ours",8000]"#);
        }
        assert_eq!(rows, expected);
    }
}

#[test]
fn two_recordings_of_the_same_kernel_events_are_not_joined() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let idle = ("swapper", 0);
    let switches = |from_us: u64, names: &str| {
        let mut packets = Vec::new();
        for at_us in (from_us..from_us + 20).step_by(2) {
            packets.push(switch(at_us * 1000, idle, (names, 61)));
            packets.push(switch((at_us + 1) * 1000, (names, 61), idle));
        }
        trace(&packets)
    };
    let first = switches(1000, "app");
    write(path, "first.pftrace", &first);
    write(path, "again.pftrace", &first);
    // More than half of the switches are those of the first one.
    write(path, "overlap.pftrace", switches(1006, "app"));
    write(path, "later.pftrace", switches(5000, "app"));
    for other in ["again.pftrace", "overlap.pftrace"] {
        for output in ["o.pftrace", "o.json", "o.ftrace"] {
            let said = refused(path, &["convert", "first.pftrace", other, "-o", output]);
            let expected = "are recordings of the same kernel events";
            assert!(said.contains(expected) && said.contains(other), "{other}: {said}");
            assert!(!path.join(output).exists());
        }
    }
    let _ = converted(path, &["first.pftrace", "later.pftrace"], "o.pftrace");
}

/// `CLONE_THREAD` and what goes with it.
const THREAD: u64 = 0x3d_0f00;

#[test]
fn a_process_that_is_born_in_the_trace_is_one_with_its_states_and_markers() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (zygote, main, render) = (("zygote64", 700), ("main", 7244), ("main", 7245));
    let us = |us: u64| 1_000_000_000 + us * 1000;
    let system = [
        switch(us(1), ("swapper", 0), zygote),
        new_task(us(10), 700, 7244, 0x0120_0000),
        switch(us(20), zygote, main),
        new_task(us(100), 7244, 7245, THREAD),
        switch(us(120), main, render),
        switch(us(300), render, main),
        switch(us(900), main, ("swapper", 0)),
    ];
    write(path, "system.pftrace", trace(&system));
    // The same in text.
    let line = |at, name: &str, tid, event: &str| {
        format!(" {name}-{tid} (-----) [000] d..2 1.{at:06}: {event}\n")
    };
    let switched = |at, (prev, prev_tid): (&str, u64), (next, next_tid): (&str, u64)| {
        let event = format!(
            "sched_switch: prev_comm={prev} prev_pid={prev_tid} prev_prio=120 prev_state=S ==> next_comm={next} \
             next_pid={next_tid} next_prio=120"
        );
        line(at, prev, prev_tid, &event)
    };
    let born = |at, (by, by_tid): (&str, u64), tid: u64, flags: u64| {
        let event =
            format!("task_newtask: pid={tid} comm=main clone_flags={flags:x} oom_score_adj=0");
        line(at, by, by_tid, &event)
    };
    let lines = [
        HEADER.to_owned(),
        switched(1, ("swapper", 0), zygote),
        born(10, zygote, 7244, 0x0120_0000),
        switched(20, zygote, main),
        born(100, main, 7245, THREAD),
        switched(120, main, render),
        switched(300, render, main),
        switched(900, main, ("swapper", 0)),
    ];
    write(path, "system.ftrace", lines.concat());
    let ours = [
        ("main", 7244, 7244, 50, "B|7244|bindApplication"),
        ("RenderThread", 7245, 7244, 150, "B|7244|eglInitialize"),
        ("RenderThread", 7245, 7244, 250, "E|7244"),
        ("main", 7244, 7244, 400, "C|7244|heap|5"),
        ("main", 7244, 7244, 500, "S|7244|load|1"),
        ("main", 7244, 7244, 600, "F|7244|load|1"),
        ("main", 7244, 7244, 800, "E|7244"),
    ];
    write(path, "ours.ftrace", text(&ours));
    let processes =
        "select pid, count(*) as count from process where pid in (7244, 7245) group by 1";
    let threads =
        "select tid, count(*) as count from thread where tid in (7244, 7245) group by 1 order by 1";
    let slices = "select t.tid, p.pid, s.name, (select count(*) from thread_state st where st.utid = t.utid and st.state = 'Running') as running \
                  from slice s join thread_track k on s.track_id = k.id join thread t using (utid) join process p using (upid) order by 1";
    let others = "select k.name from process_track k join process p using (upid) where p.pid = 7244 and k.name = 'load' \
                  union all select k.name from process_counter_track k join process p using (upid) where p.pid = 7244 order by 1";
    for system in ["system.pftrace", "system.ftrace"] {
        let _ = converted(path, &["ours.ftrace", system], "o.pftrace");
        let rows =
            engine.rows(path, &["o.pftrace"], &[processes, threads, slices, others]).remove(0);
        assert_eq!(rows[0], ["[7244,1]"], "{system}");
        assert_eq!(rows[1], ["[7244,1]", "[7245,1]"], "{system}");
        let expected = [r#"[7244,7244,"bindApplication",2]"#, r#"[7245,7244,"eglInitialize",1]"#];
        assert_eq!(rows[2], expected, "{system}");
        assert_eq!(rows[3], [r#"["heap"]"#, r#"["load"]"#], "{system}");
    }
}

#[test]
fn a_process_born_in_a_kernel_s_recording_is_one_with_its_capture() {
    let (Some(engine), Some(tracefs)) = (Engine::new(), Tracefs::open()) else { return };
    let (directory, program) = writer();
    let path = directory.path();
    tracefs.start(16 * 1024);
    tracefs.record(&[
        "sched/sched_switch",
        "sched/sched_wakeup_new",
        "task/task_newtask",
        "task/task_rename",
    ]);
    let program = program.to_str().unwrap();
    run(&["--pass-on", "never"], &path.join("own.ftrace"), &[program, "2", "400"]);
    write(path, "kernel.ftrace", tracefs.stop());
    let _ = converted(path, &["kernel.ftrace"], "kernel.pftrace");
    let processes = "select distinct o.upid from process o join process p using (pid) join thread t on t.upid = p.upid \
        join thread_track k using (utid) join slice s on s.track_id = k.id";
    // With its states, and no other thread has its id.
    let threads = "select t.name, count(*), (select count(*) > 0 from thread_state x where x.utid = t.utid), \
        (select count(*) from thread o where o.tid = t.tid) from slice s join thread_track k on s.track_id = k.id \
        join thread t using (utid) group by t.utid order by 1";
    for kernel in ["kernel.ftrace", "kernel.pftrace"] {
        let _ = converted(path, &["own.ftrace", kernel], "o.pftrace");
        // A kernel may leave out that a processor stops to be idle.
        let allowed = ["mismatched_sched_switch_tids"];
        let rows = engine.rows_with(path, &["o.pftrace"], &[processes, threads], &allowed);
        let rows = &rows[0];
        assert_eq!(rows[0].len(), 1, "{kernel}: {:?}", rows[0]);
        assert_eq!(rows[1], [r#"["writer-0",200,1,1]"#, r#"["writer-1",200,1,1]"#], "{kernel}");
    }
}
