use super::*;
use base64::Engine;
use serde_json::{Value, json};
use std::io::Read;

fn columns(trace: &Trace) -> Value {
    let mut out = Vec::new();
    write(trace, None, &mut out).unwrap();
    let lines = std::str::from_utf8(&out).unwrap().lines();
    assert!(lines.clone().all(|line| line.len() <= LINE_BYTES));
    let packed = STANDARD.decode(lines.collect::<String>()).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*packed).read_to_string(&mut text).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [head, threads @ .., rest] = &*lines else { panic!("{text}") };
    assert_eq!(head["threads"], threads.len());
    json!({ "head": head, "threads": threads, "rest": rest })
}

#[test]
fn columns_have_arguments_flows_categories_states_and_times_since_the_one_before() {
    let trace = tracetee_trace::json::read(
        r#"[{"ph":"X","name":"a","cat":"net","pid":1,"tid":2,"ts":5000000000,"dur":9,"args":{"url":"x"}},
        {"ph":"X","name":"b","pid":1,"tid":2,"ts":5000000002,"dur":3},
        {"ph":"s","name":"f","cat":"c","id":1,"pid":1,"tid":2,"ts":5000000003},
        {"ph":"X","name":"c","pid":1,"tid":3,"ts":5000000004,"dur":1},
        {"ph":"f","name":"f","cat":"c","id":1,"bp":"e","pid":1,"tid":3,"ts":5000000004},
        {"ph":"b","name":"load","cat":"io","id":"7","pid":1,"tid":3,"ts":5000000004,"args":{"n":1}},
        {"ph":"C","name":"heap","pid":1,"ts":5000000006,"args":{"value":3.5}}]"#
            .as_bytes(),
    )
    .unwrap();
    let columns = columns(&trace);
    let (head, rest) = (&columns["head"], &columns["rest"]);
    let name = |id: &Value| head["names"][usize::try_from(id.as_u64().unwrap()).unwrap()].clone();
    assert_eq!((&head["begin"], &head["took"]), (&json!([5000, 0]), &json!(9000)));
    let first = &columns["threads"][0];
    assert_eq!(first["start"], json!([0, 2000]));
    assert_eq!((&first["took"], &first["parent"]), (&json!([9000, 3000]), &json!([-1, 0])));
    assert_eq!(name(&first["category"][0]), "net");
    assert_eq!(name(&first["args"]["0"]), r#"{"url":"x"}"#);
    assert_eq!(rest["flows"], json!([[2, 1, 3, 0]]));
    let track = &rest["tracks"][0];
    assert_eq!((name(&track["label"]), &track["took"]), (json!("load"), &json!([-1])));
    assert_eq!(
        (name(&track["category"][0]), name(&track["args"][0])),
        (json!("io"), json!("{\"n\":1}"))
    );
    assert_eq!(
        (&rest["counters"][0]["at"], &rest["counters"][0]["value"]),
        (&json!([6000]), &json!([3.5]))
    );
}

#[test]
fn samples_of_one_stack_that_follow_each_other_are_one_slice_of_their_track() {
    let columns = columns(&tracetee_trace::read(crate::tests::SAMPLED.as_bytes()).unwrap());
    let track = &columns["rest"]["tracks"][0];
    let name = |id: &Value| {
        columns["head"]["names"][usize::try_from(id.as_u64().unwrap()).unwrap()].clone()
    };
    assert_eq!(name(&track["label"]), "samples");
    let ids = track["name"].as_array().unwrap();
    let names: Vec<_> = ids.iter().map(name).collect();
    assert_eq!(names, ["com.app.Feed.bind", "com.app.Feed.fit;x"]);
    assert_eq!(
        name(&track["args"][0]),
        r#"{"stack":"com.app.Feed.bind < android.os.Looper.loop"}"#
    );
    assert_eq!(track["at"], json!([0, 50_000_000]));
    assert_eq!(track["took"], json!([50_000_000, 20_000_000]));
}

/// Main calls a server, which calls main back; main answers and calls another one, whose reply the trace does not have.
#[test]
fn binder_calls_are_slices_of_the_calling_thread_s_track_until_their_own_reply() {
    let mut text = "# tracer: nop\n".to_owned();
    for (us, tid, pid, event) in [
        (0, 7, 7, "tracing_mark_write: B|7|x"),
        (1, 9, 8, "tracing_mark_write: B|8|y"),
        (
            10,
            7,
            7,
            "binder_transaction: transaction=1 dest_node=5 dest_proc=8 dest_thread=0 reply=0 flags=0x10 code=0x3",
        ),
        (12, 9, 8, "binder_transaction_received: transaction=1"),
        (
            13,
            7,
            7,
            "binder_transaction: transaction=2 dest_node=5 dest_proc=8 dest_thread=0 reply=0 flags=0x11 code=0x3",
        ),
        (
            20,
            9,
            8,
            "binder_transaction: transaction=3 dest_node=5 dest_proc=7 dest_thread=7 reply=0 flags=0x10 code=0x3",
        ),
        (21, 7, 7, "binder_transaction_received: transaction=3"),
        (
            25,
            7,
            7,
            "binder_transaction: transaction=4 dest_node=0 dest_proc=8 dest_thread=9 reply=1 flags=0x0 code=0x0",
        ),
        (26, 9, 8, "binder_transaction_received: transaction=4"),
        (
            40,
            9,
            8,
            "binder_transaction: transaction=5 dest_node=0 dest_proc=7 dest_thread=7 reply=1 flags=0x0 code=0x0",
        ),
        (42, 7, 7, "binder_transaction_received: transaction=5"),
        (
            50,
            7,
            7,
            "binder_transaction: transaction=6 dest_node=5 dest_proc=8 dest_thread=0 reply=0 flags=0x10 code=0x3",
        ),
        (60, 7, 7, "tracing_mark_write: E|7"),
        (61, 9, 8, "tracing_mark_write: E|8"),
    ] {
        text.push_str(&format!("t{tid}-{tid} ({pid}) [000] d..2 1.{us:06}: {event}\n"));
    }
    let columns = columns(&tracetee_trace::read(text.as_bytes()).unwrap());
    let tracks = columns["rest"]["tracks"].as_array().unwrap();
    let name = |id: &Value| {
        columns["head"]["names"][usize::try_from(id.as_u64().unwrap()).unwrap()].clone()
    };
    let seen: Vec<_> =
        tracks.iter().map(|track| (&track["thread"], &track["at"], &track["took"])).collect();
    assert_eq!(
        seen,
        [
            (&json!(7), &json!([10_000, 40_000]), &json!([32_000, -1])),
            (&json!(9), &json!([20_000]), &json!([6_000])),
        ]
    );
    let about: Value = serde_json::from_str(name(&tracks[0]["args"][0]).as_str().unwrap()).unwrap();
    assert_eq!((&about["answered by"], &about["received after µs"]), (&json!("t9 9"), &json!(2)));
}

#[test]
fn a_sleep_for_a_disk_is_told_from_others() {
    let switch = |prev: u32, state: &str, next: u32| {
        format!(
            "sched_switch: prev_comm=a prev_pid={prev} prev_prio=120 prev_state={state} ==> next_comm=b next_pid={next} next_prio=120"
        )
    };
    let wake = "sched_waking: comm=a pid=7 prio=120 target_cpu=000".to_owned();
    let mut text = "# tracer: nop\n".to_owned();
    for (us, event) in [
        (1, "tracing_mark_write: B|7|x".to_owned()),
        (2, switch(7, "D", 0)),
        (4, wake.clone()),
        (5, "sched_blocked_reason: pid=7 iowait=1 caller=f+0x1/0x2".to_owned()),
        (6, switch(0, "R", 7)),
        (7, switch(7, "D", 0)),
        (8, wake),
        (9, switch(0, "R", 7)),
        (10, switch(7, "S", 0)),
    ] {
        text.push_str(&format!("a-7 (7) [000] d..2 1.{us:06}: {event}\n"));
    }
    let columns = columns(&tracetee_trace::read(text.as_bytes()).unwrap());
    let states = &columns["threads"][0]["states"];
    assert_eq!(states["state"], json!([4, 1, 0, 3, 1, 0, 2]));
    assert_eq!(states["at"], json!([1000, 2000, 2000, 1000, 1000, 1000, 1000]));
    assert_eq!(states["waker"], json!([-1, 7, -1, -1, 7, -1, -1]));
    assert_eq!(states["cpu"], json!([0, 0, 0, 0, 0, 0, 0]));
}
