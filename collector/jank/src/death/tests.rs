//! Deaths whose cause is planted: the system's words, the dump, and the records of the last seconds.

use super::*;
use crate::{Options, Which, analyze};
use std::fmt::Write;
use tracetee_trace::read;

/// A source of numbers.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % end
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

/// A planted death, and what must be found.
struct Planted {
    death: Death,
    dump: Option<String>,
    ring: String,
    cause: DeathCause,
    key: String,
}

const KINDS: u64 = 11;
const LOOP: &str = "  at android.os.Handler.dispatchMessage(Handler.java:99)\n  at android.os.Looper.loop(Looper.java:294)\n  \
    at android.app.ActivityThread.main(ActivityThread.java:8177)\n";
const IDLE: &str = "  native: #00 pc 000b7698  /apex/lib64/bionic/libc.so (__epoll_pwait+8)\n  \
    native: #01 pc 000b7698  /system/lib64/libutils.so (android::Looper::pollInner(int)+184)\n  \
    at android.os.MessageQueue.nativePollOnce(Native method)\n  at android.os.MessageQueue.next(MessageQueue.java:335)\n  \
    at android.os.Looper.loop(Looper.java:294)\n";

/// Records of a process 100, from boot time 10 s on.
struct Ring(String);

impl Ring {
    fn mark(&mut self, tid: u32, ms: u64, payload: &str) {
        let (s, ms) = (10 + ms / 1_000, ms % 1_000);
        let _ = writeln!(
            self.0,
            " com.example.app-{tid} (  100) [000] ...1 {s}.{ms:03}000: tracing_mark_write: {payload}"
        );
    }

    fn section(&mut self, name: &str, from: u64, to: Option<u64>) {
        self.mark(100, from, &format!("B|100|{name}"));
        if let Some(to) = to {
            self.mark(100, to, "E|100");
        }
    }

    fn switch(&mut self, ms: u64, from: (u32, char), to: u32) {
        let (s, ms) = (10 + ms / 1_000, ms % 1_000);
        let _ = writeln!(
            self.0,
            " app-{} (  100) [000] d..2 {s}.{ms:03}000: sched_switch: prev_comm=app prev_pid={} prev_prio=120 prev_state={} ==> next_comm=app next_pid={to} next_prio=120",
            from.0, from.0, from.1
        );
    }
}

fn thread(name: &str, tid: u32, state: &str, kernel: char, frames: &str) -> String {
    format!(
        "\"{name}\" prio=5 tid={tid} {state}\n  | sysTid={} nice=0 cgrp=top-app\n  \
         | state={kernel} schedstat=( 1 2 3 ) utm=9 stm=1 core=0 HZ=100\n{frames}\n",
        99 + tid
    )
}

fn dumped(rng: &mut Rng, main: &str, others: &str, channels: &str) -> String {
    let mut all = vec![main.to_owned(), others.to_owned()];
    for tid in 50..50 + rng.below(20) {
        all.push(thread(
            &format!("pool-{tid}"),
            u32::try_from(tid).unwrap(),
            "Waiting",
            'S',
            "  at java.lang.Object.wait(Native method)\n",
        ));
    }
    // ART lists the main thread first, or after the signal catcher.
    if rng.below(2) == 0 {
        all.insert(
            0,
            thread("Signal Catcher", 2, "Runnable", 'R', "  (no managed stack frames)\n"),
        );
    }
    format!(
        "----- pid 100 at 2026-11-28 15:37:52 -----\nCmd line: com.example\nDALVIK THREADS (9):\n{}----- end 100 -----\n{channels}",
        all.concat()
    )
}

fn plant(kind: u64, rng: &mut Rng) -> Planted {
    let app = format!("com.example.{}.load", rng.of(&["Feed", "Chat", "Map", "Login"]));
    let at = format!("  at {app}({}.kt:{})\n", rng.of(&["A", "B"]), rng.below(900));
    let section = rng.of(&["Feed#bind", "decode image", "parse json", "inflate card"]).to_owned();
    let mut ring =
        Ring("# tracer: nop\n# tracetee: {\"pid\":100,\"app\":\"com.example\"}\n".to_owned());
    // Ordinary work before.
    for frame in 0..rng.below(20) {
        ring.section("Choreographer#doFrame 1", frame * 16, Some(frame * 16 + 5));
    }
    let mut death = Death {
        reason: "anr".to_owned(),
        description: "user request after error: Input dispatching timed out (com.example is not responding. Waited 5003ms for MotionEvent)".to_owned(),
        importance: if rng.below(2) == 0 { 100 } else { 400 },
        visible: rng.below(2) == 0,
        at_ms: 1_790_000_000_000,
        pid: 100,
        screen: rng.of(&["", "Feed", "Chat"]).to_owned(),
        rss_kb: 300_000,
        ..Death::default()
    };
    let is_open = rng.below(2) == 0;
    let main = |state: &str, kernel: char, frames: &str| thread("main", 1, state, kernel, frames);
    let mut dump = None;
    let (cause, key) = match kind {
        0 => {
            // A chain of up to four owners; the last one works, or all wait in a circle.
            let length = 1 + rng.below(4);
            let is_circle = length > 1 && rng.below(4) == 0;
            let last = rng.of(&["com.example.Db.write", "com.example.Log.flush"]);
            let mut others = String::new();
            for number in 0..length {
                let tid = u32::try_from(10 + number).unwrap();
                let held = format!("  - locked <0x{number:x}> (a com.example.L{number})\n");
                let (state, frames) = if number + 1 < length {
                    let next = format!(
                        "  at com.example.W{number}.run(W.kt:1)\n  - waiting to lock <0x{:x}> (a com.example.L) held by thread {}\n",
                        number + 1,
                        tid + 1
                    );
                    ("Blocked", next)
                } else if is_circle {
                    (
                        "Blocked",
                        format!(
                            "  at {last}(Db.kt:9)\n  - waiting to lock <0xff> (a A) held by thread 1\n"
                        ),
                    )
                } else {
                    (
                        "Native",
                        format!(
                            "  native: #00 pc 000b7374  /apex/libc.so (fsync+4)\n  at java.io.FileDescriptor.sync(Native method)\n  at {last}(Db.kt:9)\n"
                        ),
                    )
                };
                others += &thread(&format!("Owner{number}"), tid, state, 'S', &(frames + &held));
            }
            let frames = format!(
                "{at}  - waiting to lock <0x0> (a com.example.L0) held by thread 10\n{LOOP}"
            );
            dump = Some(dumped(rng, &main("Blocked", 'S', &frames), &others, ""));
            let last = if is_circle { app.clone() } else { last.to_owned() };
            (DeathCause::Lock, format!("{app} held by {last}"))
        }
        1 => {
            let call = format!("com.example.I{}$Stub$Proxy.call", rng.below(5));
            let native = rng.of(&["", "  native: #00 pc 1  /apex/libc.so (__ioctl+8)\n  native: #01 pc 2  /system/lib64/libbinder.so (android::IPCThreadState::talkWithDriver(bool)+296)\n"]);
            let frames = format!(
                "{native}  at android.os.BinderProxy.transactNative(Native method)\n  at android.os.BinderProxy.transact(BinderProxy.java:584)\n  at {call}(I.java:1)\n{at}{LOOP}"
            );
            dump = Some(dumped(rng, &main("Native", 'S', &frames), "", ""));
            (DeathCause::Binder, call)
        }
        2 => {
            let shape = rng.of(&[
                "  native: #00 pc 000b7374  /apex/libc.so (fsync+4)\n  at java.io.FileDescriptor.sync(Native method)\n",
                "  at libcore.io.Linux.fdatasync(Native method)\n  at libcore.io.ForwardingOs.fdatasync(ForwardingOs.java:107)\n",
                "  at android.database.sqlite.SQLiteConnection.nativeExecuteForCursorWindow(Native method)\n",
                "  at java.lang.Object.wait(Native method)\n",
            ]);
            let channels = if shape.contains("Object.wait") {
                "----- Waiting Channels: pid 100 at x -----\nsysTid=100      folio_wait_bit_common\n----- end 100 -----\n"
            } else {
                ""
            };
            dump = Some(dumped(
                rng,
                &main("Native", 'D', &format!("{shape}{at}{LOOP}")),
                "",
                channels,
            ));
            (DeathCause::Io, app.clone())
        }
        3 => {
            // Counters of the agent, or the kernel's function.
            if is_open {
                ring.mark(100, 1_000, "C|100|tracetee: main running ns|1");
                ring.mark(100, 1_000, "C|100|tracetee: main runnable ns|1");
                ring.mark(100, 6_000, "C|100|tracetee: main running ns|400000000");
                ring.mark(100, 6_000, "C|100|tracetee: main runnable ns|100000000");
                ring.mark(
                    100,
                    6_000,
                    &format!("C|100|tracetee: main major page faults|{}", 100 + rng.below(900)),
                );
                dump = Some(dumped(rng, &main("Runnable", 'D', &format!("{at}{LOOP}")), "", ""));
            } else {
                let channels = format!(
                    "----- Waiting Channels: pid 100 at x -----\nsysTid=100      {}\n----- end 100 -----\n",
                    rng.of(&["do_swap_page", "swap_readpage"])
                );
                dump = Some(dumped(
                    rng,
                    &main("Runnable", 'D', &format!("{at}{LOOP}")),
                    "",
                    &channels,
                ));
            }
            (DeathCause::Swap, String::new())
        }
        4 => {
            // Nothing before, or little.
            ring.section(&section, 5_000, Some(5_000 + rng.below(500)));
            dump = (rng.below(3) > 0).then(|| dumped(rng, &main("Native", 'S', IDLE), "", ""));
            (DeathCause::Idle, String::new())
        }
        5 => {
            // It had gone on when the dump came: the ring has what kept it.
            ring.section(&section, 300, Some(4_000 + rng.below(2_000)));
            ring.section("Choreographer#doFrame 9", 6_500, Some(6_505));
            dump = (rng.below(3) > 0).then(|| dumped(rng, &main("Native", 'S', IDLE), "", ""));
            (DeathCause::Section, section.clone())
        }
        6 => {
            ring.switch(900, (7, 'S'), 100);
            ring.section(&section, 950, None);
            ring.switch(1_000, (100, 'R'), 7);
            ring.switch(4_500 + rng.below(1_400), (7, 'S'), 100);
            ring.switch(6_000, (100, 'R'), 7);
            dump = Some(dumped(rng, &main("Runnable", 'R', &format!("{at}{LOOP}")), "", ""));
            (DeathCause::Starved, String::new())
        }
        7 => {
            if is_open {
                ring.section(&section, 1_000, None);
            }
            ring.mark(
                110,
                6_500,
                &format!("I|100|tracetee: stood still: {} ms", 3_000 + rng.below(2_500)),
            );
            let frames = rng.of(&[IDLE, LOOP]);
            dump = (rng.below(2) == 0).then(|| dumped(rng, &main("Native", 'S', frames), "", ""));
            (DeathCause::Frozen, String::new())
        }
        8 => {
            let limit = rng.of(&["AnonSwap", "Rss", ""]);
            death.reason = rng.of(&["other", "memory_limiter"]).to_owned();
            death.description = match (&*death.reason, limit) {
                ("other", "") => "MemoryLimiter".to_owned(),
                (_, "") => String::new(),
                (_, limit) => format!("MemoryLimiter:{limit}"),
            };
            ring.section(&section, 1_000, is_open.then_some(5_000));
            (DeathCause::Limiter, limit.to_owned())
        }
        9 => {
            // Work that goes on; the section names it, or the function.
            let frames = format!(
                "  native: #00 pc 1  /data/libfeed.so (Feed::parse(char const*)+8)\n{at}{LOOP}"
            );
            dump = Some(dumped(rng, &main("Native", 'R', &frames), "", ""));
            if is_open {
                ring.section(&section, 1_000, None);
                ring.mark(110, 6_500, "I|100|tick");
                (DeathCause::Section, section.clone())
            } else {
                (DeathCause::Section, app.clone())
            }
        }
        _ => {
            death.reason =
                rng.of(&["crash", "low_memory", "user_requested", "exit_self"]).to_owned();
            ring.section(&section, 1_000, is_open.then_some(5_000));
            (DeathCause::Unknown, String::new())
        }
    };
    Planted { death, dump, ring: ring.0, cause, key }
}

fn explained(planted: &Planted) -> DeathReport {
    let trace = read(planted.ring.as_bytes()).unwrap();
    let dump = planted.dump.as_ref().map(|text| Dump::parse(text.as_bytes(), Some(100)).unwrap());
    let options = Options {
        process: Which::Pid(100),
        death: Some(&planted.death),
        dump: dump.as_ref(),
        ..Options::default()
    };
    analyze(&trace, &options).unwrap().death.unwrap()
}

#[test]
fn of_550_planted_deaths_each_has_its_reason_cause_and_key() {
    let mut rng = Rng(52);
    let mut wrong = Vec::new();
    let mut counts = BTreeMap::new();
    for number in 0..550 {
        let planted = plant(number % KINDS, &mut rng);
        let found = explained(&planted);
        let is_right = (found.cause, &found.key) == (planted.cause, &planted.key)
            && found.reason == planted.death.reason
            && !found.sentence.is_empty();
        *counts.entry((planted.death.reason.clone(), planted.cause)).or_insert(0) += 1;
        if !is_right {
            wrong.push(format!(
                "{number}: {:?} {} is {:?} {}: {}",
                planted.cause, planted.key, found.cause, found.key, found.sentence
            ));
        }
    }
    println!("{counts:?}");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_sentence_names_the_screen_the_owners_and_the_last_one_s_work() {
    let death = Death {
        reason: "anr".to_owned(),
        description: "is not responding. Waited 5203ms for MotionEvent".to_owned(),
        visible: true,
        screen: "Feed".to_owned(),
        ..Death::default()
    };
    let lock = |tid: u32| {
        format!("  - waiting to lock <0x{tid}> (a com.example.Db) held by thread {tid}\n")
    };
    let main = thread(
        "main",
        1,
        "Blocked",
        'S',
        &format!("  at com.example.Feed.load(F:1)\n{}", lock(12)),
    );
    let fsync = "  native: #00 pc 1  /apex/libc.so (fsync+4)\n";
    let one = thread("DbWriter", 12, "Native", 'D', fsync);
    let two = [
        thread(
            "DbWriter",
            12,
            "Blocked",
            'S',
            &format!("  at com.example.Db.put(D:1)\n{}", lock(13)),
        ),
        thread("Disk", 13, "Native", 'D', fsync),
    ]
    .concat();
    let circle = thread("DbWriter", 12, "Blocked", 'S', &lock(1));
    for (others, expected) in [
        (one, "of DbWriter, which was in fsync"),
        (two, "of DbWriter, which waited for a lock of Disk, which was in fsync"),
        (circle, "of DbWriter, which waited for a lock of main: a deadlock"),
        (String::new(), "of an unknown thread"),
    ] {
        let dump = Some(format!("{main}{others}"));
        let ring = "# tracer: nop\n".to_owned();
        let planted = Planted {
            death: death.clone(),
            dump,
            ring,
            cause: DeathCause::Lock,
            key: String::new(),
        };
        let found = explained(&planted);
        assert_eq!(
            found.sentence,
            format!("ANR on Feed: main waited 5.2 s for a lock (com.example.Db) {expected}")
        );
        assert_eq!(found.noticed_by, "user");
    }
}

#[test]
fn a_native_crash_has_its_function_behind_those_that_abort() {
    use tracetee_trace::dump::{Signal, ThreadDump};
    let frame = |function: &str, location: &str| StackEntry {
        function: function.to_owned(),
        location: location.to_owned(),
        is_native: true,
    };
    let crash = |frames: Vec<StackEntry>| {
        let main = ThreadDump { name: "FeedLoader".to_owned(), frames, ..ThreadDump::default() };
        let signal = Signal {
            name: "SIGABRT".to_owned(),
            abort_message: "no feed".to_owned(),
            cause: String::new(),
        };
        let dump = Dump {
            threads: vec![main],
            main: Some(0),
            signal: Some(signal),
            is_native: true,
            ..Dump::default()
        };
        let death = Death { reason: "crash_native".to_owned(), ..Death::default() };
        let trace = read("# tracer: nop\n".as_bytes()).unwrap();
        let options = Options {
            process: Which::Pid(0),
            death: Some(&death),
            dump: Some(&dump),
            ..Options::default()
        };
        analyze(&trace, &options).unwrap().death.unwrap()
    };
    let found = crash(vec![
        frame("abort", "libc.so"),
        frame("__assert2", "libc.so"),
        frame("Feed::load(int)", "libfeed.so"),
    ]);
    assert_eq!(
        (found.cause, &*found.key, found.dump),
        (DeathCause::NativeCrash, "Feed::load(int)", DumpKind::Tombstone)
    );
    assert_eq!(
        found.sentence,
        "native crash in the background: FeedLoader crashed with SIGABRT in Feed::load: no feed"
    );
    assert_eq!(found.stack[2], "Feed::load(int) (libfeed.so)");
    assert_eq!(crash(vec![frame("abort", "libc.so")]).key, "abort");
    assert_eq!(crash(vec![frame("abort", "libc.so"), frame("", "libfeed.so")]).key, "libfeed.so");
    assert_eq!(crash(vec![frame("abortive", "libfeed.so")]).key, "abortive");
}

#[test]
fn names_of_functions_are_restored_and_ring_alone_explains() {
    let mapping = Mapping::parse("com.example.Feed -> a.b:\n    void load() -> c\n").unwrap();
    let death = Death { reason: "anr".to_owned(), ..Death::default() };
    let dump =
        Dump::parse(b"\"main\" prio=5 tid=1 Runnable\n  at a.b.c(SourceFile:1)\n", None).unwrap();
    let trace = read("# tracer: nop\n".as_bytes()).unwrap();
    let options = Options {
        process: Which::Pid(0),
        death: Some(&death),
        dump: Some(&dump),
        mapping: Some(&mapping),
        ..Options::default()
    };
    let found = analyze(&trace, &options).unwrap().death.unwrap();
    assert!(found.key.starts_with("com.example.Feed."), "{}", found.key);
    // Contention in the ring, without a dump.
    let mut ring = Ring("# tracer: nop\n".to_owned());
    ring.section("monitor contention with owner Db (12) at void com.example.Db.write()(Db.kt:1) waiters=0 blocking from void com.example.Feed.load()(Feed.kt:2)", 500, None);
    ring.mark(110, 6_000, "I|100|tick");
    let planted =
        Planted { death, dump: None, ring: ring.0, cause: DeathCause::Lock, key: String::new() };
    let found = explained(&planted);
    assert_eq!(
        (found.cause, &*found.key),
        (DeathCause::Lock, "com.example.Feed.load held by com.example.Db.write")
    );
    assert_eq!(
        found.sentence,
        "ANR in the background: main waited 5.5 s for a lock: com.example.Feed.load held by com.example.Db.write"
    );
}
