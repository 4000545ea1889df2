//! Captures of the last seconds of processes, and the dumps beside them: explained whichever comes first, by the dump of the same app
//! alone, counted once, gone with their device.

use serde_json::{Map, Value, json};
use std::path::Path;
use std::process::Command;
use tracetee_fleet::change::Source;
use tracetee_fleet::change::findings::Rise;
use tracetee_fleet::database::Database;
use tracetee_tests::tracetee;
use tracetee_tests_upload::collector::{Collector, ID, put_capture, run};
use tracetee_tests_upload::s3::Bucket;

const DUMP: &str = "----- pid 5 at 2026-11-28 15:37:52 -----\nCmd line: com.example\nDALVIK THREADS (2):\n\
    \"main\" prio=5 tid=1 Blocked\n  | sysTid=5 nice=0\n  at com.example.Feed.load(Feed.kt:1)\n  \
    - waiting to lock <0x1> (a com.example.Db) held by thread 12\n\n\
    \"Db<script>\" prio=5 tid=12 Native\n  | sysTid=6 nice=0\n  native: #00 pc 1  /apex/libc.so (fsync+4)\n  \
    at com.example.Db.put(Db.kt:1)\n\n----- end 5 -----\n";
const SENTENCE: &str =
    "ANR on Feed: main waited 5.2 s for a lock (com.example.Db) of Db<script>, which was in fsync";

fn meta(window: &str, death: Option<&Value>) -> Map<String, Value> {
    let mut meta = json!({"app": "com.example", "version_name": "1", "install_id": "d", "window": window, "model": "m", "api": 34});
    if let Some(death) = death {
        meta["death"] = death.clone();
    }
    meta.as_object().unwrap().clone()
}

fn anr() -> Value {
    json!({"reason": "anr", "description": "not responding. Waited 5203ms for MotionEvent", "importance": 100, "visible": true,
        "at_ms": 1_790_000_000_000_u64, "pid": 5, "process": "com.example", "rss_kb": 300_000, "screen": "Feed", "joined_by": "summary"})
}

/// The capture of a process of which nothing is left but its end.
fn header(death: &Value) -> Vec<u8> {
    let text = format!(
        "# tracer: nop\n# tracetee: {}\n",
        json!({"pid": 5, "app": "com.example", "death": death})
    );
    zstd::bulk::compress(text.as_bytes(), 1).unwrap()
}

fn packed(dump: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(dump, 1).unwrap()
}

fn of_dump(id: &str) -> String {
    id.replace("-7cfa-", "-8cfa-")
}

fn get(collector: &Collector, path: &str) -> String {
    let answer = collector.send("GET", path, &[], b"");
    assert_eq!(answer.status, 200, "{path}");
    String::from_utf8_lossy(&answer.body).into_owned()
}

fn deaths(collector: &Collector) -> Value {
    collector.settle();
    let report: Value = serde_json::from_str(&get(collector, "/report.json")).unwrap();
    report["apps"][0]["deaths_by_key"].clone()
}

fn path_of(collector: &Collector, id: &str) -> String {
    let name = format!("{id}.ftrace.zst");
    let mut files = collector.files("raw").into_iter();
    let found = files.find(|path| path.file_name() == Some(Path::new(&name).as_os_str()));
    found.unwrap().display().to_string()
}

#[test]
fn a_dump_explains_its_capture_whichever_comes_first() {
    let (one, other) = (ID, ID.replace("019a1fd7", "019a1fd8"));
    let collector = Collector::start(&[]);
    let put = |id: &str, meta: &Map<String, Value>, body: &[u8]| {
        assert_eq!(put_capture(&collector.url, id, meta, body), Some(201), "{id}");
    };
    let (capture, dump) = (meta("crash", Some(&anr())), meta("anr_dump.anr", None));
    put(one, &capture, &header(&anr()));
    let found = deaths(&collector);
    assert_eq!(
        (&found[0]["cause"], &found[0]["deaths"]),
        (&json!("unknown"), &json!(1)),
        "{found}"
    );
    put(&of_dump(one), &dump, &packed(DUMP.as_bytes()));
    put(&of_dump(&other), &dump, &packed(DUMP.as_bytes()));
    put(&other, &capture, &header(&anr()));
    let found = deaths(&collector);
    let row = &found[0];
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    assert_eq!((&row["reason"], &row["cause"]), (&json!("anr"), &json!("lock")), "{found}");
    assert_eq!(row["key"], "com.example.Feed.load held by com.example.Db.put");
    assert_eq!(
        [&row["deaths"], &row["by_user"], &row["devices"]],
        [2, 2, 1].map(|n| json!(n)).each_ref()
    );
    // The page of the capture, that of the dump, the timeline, and the report of the file say it first.
    for id in [one, &of_dump(one)] {
        let page = get(&collector, &format!("/captures/{id}"));
        assert!(
            page.contains(&SENTENCE.replace('<', "\\u003c")) && !page.contains(SENTENCE),
            "{id}: {page}"
        );
    }
    let timeline = get(&collector, &format!("/captures/{one}/timeline"));
    assert!(timeline.contains(&SENTENCE.replace('<', "&lt;").replace('>', "&gt;")), "{timeline}");
    let text = collector.tracetee(&["report", &path_of(&collector, one)]);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words(&text).starts_with(&format!("com.example (pid 5), 0.0 ms {SENTENCE} lock (user)")),
        "{text}"
    );
    assert!(text.contains("dump (threads): Blocked 1, Native 1"), "{text}");
    let fleet = get(&collector, "/report.md");
    assert!(fleet.starts_with("~~~~~~text\n") && fleet.ends_with("\n~~~~~~\n"), "{fleet}");
    assert!(words(&fleet).contains("anr lock"), "{fleet}");
    let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "deaths", "arguments": {"app": "com.example"}}});
    let headers =
        [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    let answer = collector.send("POST", "/mcp", &headers, ask.to_string().as_bytes());
    let said = String::from_utf8_lossy(&answer.body);
    assert!(said.contains("held by com.example.Db.put") && said.contains(one), "{said}");
    let captures: Value = serde_json::from_str(&get(&collector, "/report.json")).unwrap();
    let version = &captures["apps"][0]["versions"][0];
    assert_eq!((&version["counted"], &version["smoothness"]), (&json!(0), &Value::Null));
    // Made anew from the files, it is the same; without the device, nothing is left.
    let directory = collector.into_directory();
    let store = directory.path().join("store");
    run(Command::new(tracetee()).args(["store", "rebuild", "--store"]).arg(&store));
    let again = Collector::start_in(directory, &[]);
    let store = store.display().to_string();
    assert_eq!(deaths(&again), found);
    again.tracetee(&["store", "forget", "d", "--store", &store]);
    let report: Value = serde_json::from_str(&get(&again, "/report.json")).unwrap();
    assert_eq!(report["apps"], json!([]));
}

#[test]
fn examples_of_a_reason_are_its_deaths() {
    let collector = Collector::start(&[]);
    let ids = ["7", "8", "9"].map(|digit| ID.replace("019a1fd7", &format!("019a1fd{digit}")));
    for (id, reason) in ids.iter().zip(["anr", "crash", "crash"]) {
        let mut death = anr();
        death["reason"] = json!(reason);
        let capture = meta("crash", Some(&death));
        assert_eq!(put_capture(&collector.url, id, &capture, &header(&death)), Some(201));
    }
    collector.settle();
    let database = Database::read(&collector.store().join("tables.sqlite")).unwrap();
    let found = |key: &str| {
        let rise = Rise { source: Source::Deaths, key: key.into(), ..Rise::default() };
        let found = database.examples("com.example", "1", &rise).unwrap();
        let mut links: Vec<String> = found.into_iter().map(|example| example.link).collect();
        links.sort();
        links
    };
    let links = ids.map(|id| format!("captures/{id}"));
    assert_eq!(found("anr"), links[..1]);
    assert_eq!(found("crash"), links[1..]);
    assert_eq!(found(""), links);
    assert!(found("low_memory").is_empty());
}

/// Waits until the report of each collector has as many deaths of a cause as it is to have.
fn await_deaths(collectors: &[&Collector], cause: &str, deaths: u64) {
    let has = |collector: &&&Collector| {
        let report: Value = serde_json::from_str(&get(collector, "/report.json")).unwrap();
        let rows = report["apps"][0]["deaths_by_key"].as_array().cloned().unwrap_or_default();
        rows.len() == 1
            && (&rows[0]["cause"], &rows[0]["deaths"]) == (&json!(cause), &json!(deaths))
    };
    for _ in 0..300 {
        if collectors.iter().all(|collector| has(&collector)) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    panic!("{cause} does not come: {}", get(collectors[0], "/report.json"));
}

#[test]
fn a_dump_explains_the_capture_that_another_collector_of_the_bucket_received() {
    let bucket = Bucket::default();
    let (first, second) = (bucket.collector(&[]), bucket.collector(&[]));
    let both = [&first, &second];
    let put = |collector: &Collector, id: &str, meta: &Map<String, Value>, body: &[u8]| {
        assert_eq!(put_capture(&collector.url, id, meta, body), Some(201), "{id}");
    };
    let (capture, dump) = (meta("crash", Some(&anr())), meta("anr_dump.anr", None));
    put(&first, ID, &capture, &header(&anr()));
    // Published, and gone from the first one's machine.
    await_deaths(&both, "unknown", 1);
    put(&second, &of_dump(ID), &dump, &packed(DUMP.as_bytes()));
    await_deaths(&both, "lock", 1);
    // The other way round, and at once.
    let other = |digit: u8| ID.replace("019a1fd7", &format!("019a1fd{digit}"));
    put(&second, &of_dump(&other(8)), &dump, &packed(DUMP.as_bytes()));
    std::thread::sleep(std::time::Duration::from_secs(8));
    put(&first, &other(8), &capture, &header(&anr()));
    await_deaths(&both, "lock", 2);
    std::thread::scope(|scope| {
        scope.spawn(|| put(&second, &of_dump(&other(9)), &dump, &packed(DUMP.as_bytes())));
        scope.spawn(|| put(&first, &other(9), &capture, &header(&anr())));
    });
    await_deaths(&both, "lock", 3);
    // A new machine takes it from the bucket.
    await_deaths(&[&bucket.collector(&[])], "lock", 3);
}

#[test]
fn the_dump_of_another_app_with_the_same_id_explains_nothing() {
    let collector = Collector::start(&[]);
    let mut foreign = meta("anr_dump.anr", None);
    foreign["app"] = json!("com.other");
    let body = packed(DUMP.as_bytes());
    assert_eq!(put_capture(&collector.url, &of_dump(ID), &foreign, &body), Some(201));
    assert_eq!(
        put_capture(&collector.url, ID, &meta("crash", Some(&anr())), &header(&anr())),
        Some(201)
    );
    assert_eq!(deaths(&collector)[0]["cause"], "unknown");
    let page = get(&collector, &format!("/captures/{ID}"));
    assert!(page.contains("nothing shows the cause") && !page.contains("com.example.Db"), "{page}");
}

#[test]
fn hostile_dumps_are_refused_or_say_nothing() {
    let collector = Collector::start(&[]);
    let id = |number: u8| ID.replace("019a1fd7", &format!("019a1f{number:02x}"));
    let large = vec![b'\n'; (8 << 20) + 1];
    let dumps: [(&[u8], u16); 4] =
        [(b"null", 201), (&[0xff; 1 << 20], 201), (&large, 422), (b"", 201)];
    for (number, (dump, status)) in (1_u8..).zip(dumps) {
        let window = if number == 2 { "tombstone.crash" } else { "anr_dump.anr" };
        let put =
            put_capture(&collector.url, &of_dump(&id(number)), &meta(window, None), &packed(dump));
        assert_eq!(put, Some(status), "{number}");
        let capture = meta("crash", Some(&anr()));
        assert_eq!(put_capture(&collector.url, &id(number), &capture, &header(&anr())), Some(201));
    }
    let broken = &packed(DUMP.as_bytes())[..50];
    assert_eq!(
        put_capture(&collector.url, &of_dump(&id(9)), &meta("anr_dump.x", None), broken),
        Some(422)
    );
    let found = deaths(&collector);
    assert_eq!(
        (&found[0]["cause"], &found[0]["deaths"]),
        (&json!("unknown"), &json!(4)),
        "{found}"
    );
    let text = collector.tracetee(&["report", &path_of(&collector, &id(1))]);
    assert!(text.contains("no dump: the system gave none, or it has no thread"), "{text}");
}
