//! The shapes are those of public dumps: sentry-java's and bugsnag-android's test resources (Android 13), bitdrift's capture-sdk and
//! square/stoic (14), flutter#101886 and aos-AVP#1872 (the Play Console's form), BranchMetrics#872 (10), filament#6960 (11), xCrash#104 (7).
//! The words here are ours.

use super::*;

/// An ANR of a chain: main waits for the database's thread, and that one for the disk's.
const CHAIN: &str = r#"Subject: Input dispatching timed out (a1 com.example/com.example.Feed (server) is not responding. Waited 5001ms for MotionEvent)
RssHwmKb: 216196
VmSwapKb: 15632

----- dumping pid: 4001 at 614779747

----- pid 4001 at 2026-11-28 15:37:52.936768373+0100 -----
Cmd line: com.example
Build fingerprint: 'generic/emu64a:14/UE1A/1:userdebug/test-keys'
ABI: 'arm64'
DALVIK THREADS (4):
"Signal Catcher" daemon prio=10 tid=2 Runnable
  | sysTid=4009 nice=-20 cgrp=top-app sched=0/0 handle=0x7c12b13cb0
  | state=R schedstat=( 242749 209667 5 ) utm=0 stm=0 core=3 HZ=100
  | held mutexes= "mutator lock"(shared held)
  native: #00 pc 004c6ddc  /apex/com.android.art/lib64/libart.so (art::DumpNativeStack+108) (BuildId: d22b)
  (no managed stack frames)

"main" prio=5 tid=1 Blocked
  | group="main" sCount=1 ucsCount=0 flags=1 obj=0x721b0f98 self=0xb400007d136a27b0
  | sysTid=4001 nice=-10 cgrp=top-app sched=0/0 handle=0x7f053014f8
  | state=S schedstat=( 979645230 62026944 1016 ) utm=91 stm=6 core=0 HZ=100
  | stack=0x7ffccb0000-0x7ffccb2000 stackSize=8188KB
  | held mutexes=
  at com.example.Feed.load(Feed.kt:106)
  - waiting to lock <0x0481d03d> (a com.example.Db) held by thread 12
  - locked <0x04e67032> (a java.lang.String)
  at android.os.Handler.dispatchMessage(Handler.java:99)

"DbWriter" prio=5 tid=12 Blocked
  | sysTid=4012 nice=0 cgrp=top-app sched=0/0 handle=0x7c10892cb0
  | state=S schedstat=( 144707 325001 4 ) utm=0 stm=0 core=3 HZ=100
  at com.example.Db.write(Db.kt:91)
  - waiting to lock <0x01234567> (a com.example.Log)
  - held by thread 13
  - locked <0x0481d03d> (a com.example.Db)

"Disk "quoted"" daemon prio=5 tid=13 Native
  | sysTid=4013 nice=0 cgrp=top-app sched=0/0 handle=0x7c10892cb0
  | state=D schedstat=( 144707 325001 4 ) utm=0 stm=0 core=3 HZ=100
  native: #00 pc 000b7374  /apex/com.android.runtime/lib64/bionic/libc.so (fsync+4) (BuildId: a879)
  native: #01 pc 0002b360  /data/app/lib/arm64/libdisk.so (???) (BuildId: a197)
  at java.io.FileDescriptor.sync!(Native method)
  - locked <0x01234567> (a com.example.Log)

"binder:4001_4" prio=10 (not attached)
  | sysTid=4014 nice=0 cgrp=top-app
  | state=S schedstat=( 1 2 3 ) utm=0 stm=0 core=3 HZ=100
  native: #00 pc 000b7698  /apex/com.android.runtime/lib64/bionic/libc.so (__ioctl+8)

----- end 4001 -----

----- Waiting Channels: pid 4001 at 2026-11-28 15:37:52.912177789+0100 -----
Cmd line: com.example

sysTid=4001      futex_wait_queue_me
sysTid=4013      folio_wait_bit_common

----- end 4001 -----
"#;

fn parse(text: &str) -> Dump {
    Dump::parse(text.as_bytes(), None).unwrap()
}

#[test]
fn a_dump_has_main_the_states_and_the_chain_of_owners() {
    let dump = parse(CHAIN);
    assert_eq!((dump.pid, &*dump.process), (Some(4001), "com.example"));
    assert_eq!((dump.is_native, dump.is_cut), (false, false));
    let main = dump.main().unwrap();
    assert_eq!((&*main.name, &*main.state, main.kernel_state), ("main", "Blocked", b'S'));
    assert_eq!((main.cpu_ticks, &*main.waits_in), ([91, 6], "futex_wait_queue_me"));
    assert_eq!(main.frames[0].function, "com.example.Feed.load");
    assert_eq!((&*main.frames[0].location, main.frames.len()), ("Feed.kt:106", 2));
    let (chain, is_circle) = dump.owners(main);
    let names: Vec<_> =
        chain.iter().map(|(lock, owner)| (&*lock.class, &*owner.unwrap().name)).collect();
    assert_eq!(names, [("com.example.Db", "DbWriter"), ("com.example.Log", "Disk \"quoted\"")]);
    assert!(!is_circle);
    let disk = chain[1].1.unwrap();
    assert_eq!((disk.kernel_state, &*disk.waits_in), (b'D', "folio_wait_bit_common"));
    assert_eq!((&*disk.frames[0].function, &*disk.frames[0].location), ("fsync", "libc.so"));
    assert_eq!(
        (&*disk.frames[1].function, &*disk.frames[2].function),
        ("", "java.io.FileDescriptor.sync")
    );
    let states: Vec<_> = dump.states.iter().map(|(state, count)| (&**state, *count)).collect();
    assert_eq!(states, [("Blocked", 2), ("Native", 1), ("Runnable", 1), ("S", 1)]);
}

#[test]
fn a_dump_that_is_cut_says_so_and_the_process_is_chosen_by_its_id() {
    for end in (0..CHAIN.len()).step_by(7).filter(|&end| CHAIN.is_char_boundary(end)) {
        let cut = Dump::parse(&CHAIN.as_bytes()[..end], None);
        let has_main = CHAIN[..end].contains("\n\"main\" prio=5 tid=1");
        assert_eq!(cut.as_ref().is_some_and(|dump| dump.main().is_some()), has_main, "{end}");
        assert_eq!(cut.is_some_and(|dump| dump.is_cut), has_main_block(end), "{end}");
    }
    let other = CHAIN.replace("4001", "77").replace("Feed", "Other");
    for (text, pid) in [(format!("{other}{CHAIN}"), 4001), (format!("{CHAIN}{other}"), 77)] {
        let dump = Dump::parse(text.as_bytes(), Some(pid)).unwrap();
        assert_eq!(dump.main().unwrap().sys_tid, Some(pid));
    }
    assert_eq!(Dump::parse(CHAIN.as_bytes(), Some(5)), None);
}

/// True if a text that ends there has a thread, and its block no end.
fn has_main_block(end: usize) -> bool {
    let text = &CHAIN[..end];
    let blocks =
        text.matches("----- pid ").count() + text.matches("----- Waiting Channels: pid ").count();
    let has_pid = text
        .rfind("----- pid ")
        .is_some_and(|at| text[at..].contains("\n\"Signal Catcher\" daemon prio="));
    // A last line `----- end` without its number may be the end.
    has_pid && blocks > text.matches("----- end ").count()
}

#[test]
fn the_native_form_and_the_channels_alone_have_main() {
    let native = "----- pid 9955 at 2026-07-04 14:51:23 -----\nCmd line: com.example.samples.android\nABI: 'arm64'\n\n\
        \"samples.android\" sysTid=9955\n    #00 pc 0004c35c  /apex/lib64/bionic/libc.so (syscall+28) (BuildId: ba)\n\
        \"RenderThread\" sysTid=9970\n    #00 pc 0004c35c  /apex/lib64/bionic/libc.so (offset 0x1000) (__epoll_pwait+8)\n";
    let with_end = format!("{native}----- end 9955 -----\n");
    let dump = parse(&with_end);
    assert!(dump.is_native && !dump.is_cut && parse(native).is_cut);
    assert_eq!(dump.main().unwrap().frames[0].function, "syscall");
    // Without its head, the name is what there is.
    let bare: String = native.lines().skip(1).map(|line| format!("{line}\n")).collect();
    assert_eq!(parse(&bare).main().unwrap().sys_tid, Some(9955));
    let channels = "Pid(7) have D state thread\n----- dumping pid: 7 at 1\nlibdebuggerd_client: unexpected registration response: 0\n\n\
        ----- Waiting Channels: pid 7 at 2026-11-13 19:48:09 -----\nCmd line: com.example:p\n\nsysTid=7     do_swap_page\nsysTid=9     0\n\
        ----- end 7 -----\n";
    let dump = parse(channels);
    assert_eq!(
        (&*dump.main().unwrap().waits_in, dump.states.values().sum::<u64>()),
        ("do_swap_page", 2)
    );
    // A renamed main thread, and the Play Console's form, which has no block.
    let renamed =
        "----- pid 3 at x -----\n\"com.example\" prio=5 tid=1 Runnable\n  | sysTid=3 nice=0\n";
    assert_eq!(parse(renamed).main().unwrap().name, "com.example");
    let console = "\"main\" tid=1 Native\n  #00  pc 0x0000a2c4c  /apex/lib64/libc.so (__epoll_pwait+12)\n  \
        at android.os.MessageQueue.nativePollOnce (Native method)\n";
    let dump = parse(console);
    let frames: Vec<_> = dump.main().unwrap().frames.iter().map(|frame| &*frame.function).collect();
    assert_eq!(frames, ["__epoll_pwait", "android.os.MessageQueue.nativePollOnce"]);
    for nothing in ["", "null", "----- pid 3 at x -----\n", "\" \n\"a\" b\n"] {
        assert_eq!(Dump::parse(nothing.as_bytes(), None), None, "{nothing}");
    }
}

/// A field of bytes.
fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    crate::perfetto::wire::put_bytes(&mut out, number, bytes.len(), bytes);
    out
}

fn number(number: u32, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    crate::perfetto::wire::put_number(&mut out, number, value);
    out
}

/// A tombstone in which the thread 8 has crashed.
fn tombstone() -> Vec<u8> {
    let frame = |function: &str| {
        field(4, &[field(4, function.as_bytes()), field(6, b"/data/libfeed.so")].concat())
    };
    let thread = |id, name: &str, frames: &[Vec<u8>]| {
        let thread = [number(1, id), field(2, name.as_bytes()), frames.concat()].concat();
        field(16, &[number(1, id), field(2, &thread)].concat())
    };
    [
        number(1, 1),
        number(5, 7),
        number(6, 8),
        field(9, b"com.example"),
        field(10, &[number(1, 6), field(2, b"SIGABRT"), field(4, b"SI_QUEUE")].concat()),
        field(14, b"no feed"),
        thread(7, "com.example", &[]),
        thread(8, "FeedLoader", &[frame("abort"), frame("Feed::load(int)")]),
    ]
    .concat()
}

#[test]
fn a_tombstone_has_the_thread_that_crashed_its_signal_and_functions() {
    let whole = tombstone();
    let dump = Dump::parse(&whole, None).unwrap();
    let signal = dump.signal.clone().unwrap();
    assert_eq!((&*signal.name, &*signal.abort_message), ("SIGABRT (SI_QUEUE)", "no feed"));
    let main = dump.main().unwrap();
    let frames: Vec<_> =
        main.frames.iter().map(|frame| (&*frame.function, &*frame.location)).collect();
    assert_eq!(main.name, "FeedLoader");
    assert_eq!(frames, [("abort", "libfeed.so"), ("Feed::load(int)", "libfeed.so")]);
    // One that is cut off has what came before.
    let cut = Dump::parse(&whole[..whole.len() - 1], None).unwrap();
    assert!(cut.is_cut && cut.main().is_none() && cut.signal == dump.signal);
    for end in 0..whole.len() {
        let _ = Dump::parse(&whole[..end], None);
    }
}

#[test]
fn hostile_dumps_are_read_in_time_and_kept_within_limits() {
    let mut rng = 1_u64;
    let mut garbage = || {
        rng = rng.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (rng >> 56) as u8
    };
    let bytes: Vec<u8> = (0..1 << 20).map(|_| garbage()).collect();
    for first in [b'"', b'\n', 8, 18] {
        let _ = Dump::parse(&[&[first], &*bytes].concat(), None);
    }
    let mut many = String::from("----- pid 1 at x -----\n");
    for tid in 2..100_001 {
        many += &format!("\"t{tid}\" prio=5 tid={tid} S{tid}\n  at a.b(c)\n");
    }
    many += "\"main\" prio=5 tid=1 Native\n";
    let dump = parse(&many);
    assert_eq!((dump.states.values().sum::<u64>(), dump.threads.len()), (100_000, MAX_THREADS + 1));
    assert_eq!((dump.main().unwrap().tid, dump.states.len()), (Some(1), MAX_STATES + 1));
    // A circle of two, one of itself, and a lock that nobody holds.
    let circle = |owner: u32| {
        format!(
            "\"main\" tid=1 Blocked\n- waiting to lock <0x1> (a A) held by thread {owner}\n\"b\" tid=2 Blocked\n- waiting to lock <0x2> (a B) held by thread 1\n"
        )
    };
    for (owner, expected) in [(2, (2, true)), (1, (1, true)), (3, (1, false))] {
        let dump = parse(&circle(owner));
        let (chain, is_circle) = dump.owners(dump.main().unwrap());
        assert_eq!((chain.len(), is_circle), expected, "{owner}");
    }
    let frames = "at a.b(c)\n- locked <0x1> (a b)\n".repeat(100_000);
    let dump = parse(&format!("\"main\" tid=1 Native\n{frames}"));
    let main = dump.main().unwrap();
    assert_eq!((main.frames.len(), main.holds.len()), (128, 32));
    let long = format!("\"main\" tid=1 Native\nat {}(c)\n", "ä".repeat(1 << 20));
    assert!(parse(&long).main().unwrap().frames[0].function.len() <= MAX_NAME_BYTES);
}
