//! Tests of the watched threads' counters: which records are a frame's, and that a reading is the kernel's.

use super::*;

fn text(bytes: &'static str) -> Offered<'static> {
    Offered { form: Form::Text, head: &[], bytes: bytes.as_bytes() }
}

fn edges(records: &[Offered<'_>]) -> Vec<Option<Edge>> {
    let watch = Watch::new();
    records.iter().map(|record| watch.edge(record)).collect()
}

#[test]
fn a_frame_is_its_outermost_section_whatever_lies_in_it() {
    let (begin, end) = (Some(Edge::Begin), Some(Edge::End));
    let frame = [
        ("E|7", None),
        ("B|7|message", None),
        ("E|7", None),
        ("B|7|Choreographer#doFrame 5", begin),
        ("B|7|traversal", None),
        ("I|7|Choreographer#doFrame 5", None),
        ("B|7|Choreographer#doFrame 5 - resynced to 6", None),
        ("E", None),
        ("C|7|count|1", None),
        ("E|7", None),
        ("E|7", end),
        ("E|7", None),
        ("B|7|DrawFrames 5", begin),
        ("E|7\n", end),
    ];
    let records: Vec<_> = frame.iter().map(|&(bytes, _)| text(bytes)).collect();
    let expected: Vec<_> = frame.iter().map(|&(_, edge)| edge).collect();
    assert_eq!(edges(&records), expected);
}

#[test]
fn a_packed_record_and_a_broken_one_are_looked_at_too() {
    let packed = |kind: Kind, bytes| Offered {
        form: Form::Packed,
        head: if kind == Kind::Begin { &[Kind::Begin as u64] } else { &[Kind::End as u64] },
        bytes,
    };
    let rich = |kind| Offered { form: Form::Rich, ..packed(kind, b"DrawFrame") };
    let records = [
        Offered { form: Form::Packed, head: &[], bytes: b"DrawFrame" },
        Offered { form: Form::Note, head: &[], bytes: b"B|7|DrawFrame" },
        text(""),
        text("B"),
        text("B|7"),
        packed(Kind::Begin, b"DrawFrame"),
        rich(Kind::Begin),
        rich(Kind::End),
        packed(Kind::End, b""),
    ];
    let edges = edges(&records);
    assert_eq!(edges[..5], [None; 5]);
    assert_eq!(edges[5..], [Some(Edge::Begin), None, None, Some(Edge::End)]);
}

#[test]
fn a_new_session_begins_outside_of_frames_and_without_a_reading() {
    let watch = Watch::new();
    watch.enter(1);
    watch.edge(&text("B|7|DrawFrame"));
    assert!(watch.read().is_none() && watch.read().is_some());
    watch.enter(1);
    assert_eq!(watch.edge(&text("E|7")), Some(Edge::End));
    watch.edge(&text("B|7|DrawFrame"));
    watch.enter(2);
    assert_eq!(watch.edge(&text("E|7")), None);
    assert!(watch.read().is_none());
}

/// Makes the kernel map a page: one of an allocator may be there already.
fn touch_new_page() {
    let (size, flags) = (4096, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a mapping of its own, whose result is looked at.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), size, libc::PROT_WRITE, flags, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    // SAFETY: it is mapped for writing.
    unsafe { page.cast::<u8>().write_volatile(1) };
    // SAFETY: the mapping made above, which nobody uses any longer.
    assert_eq!(unsafe { libc::munmap(page, size) }, 0);
}

#[test]
fn a_reading_is_the_kernels() {
    let tid = tracetee_os::thread_id();
    let schedstat = Descriptor::open(tid);
    // Without CONFIG_SCHED_INFO there is none.
    let has_schedstat = std::path::Path::new(&format!("/proc/self/task/{tid}/schedstat")).exists();
    assert_eq!(schedstat.is_some(), has_schedstat);
    let first = Reading::now(schedstat.as_ref(), None).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2));
    touch_new_page();
    let mut sum = 0u64;
    for round in 0..2_000_000u64 {
        sum = std::hint::black_box(sum.wrapping_add(round));
    }
    let second = Reading::now(schedstat.as_ref(), Some(first)).unwrap();
    let counters = second.since(&first).unwrap();
    assert!(counters.waits >= 1 && counters.running_ns > 100_000, "{counters:?} {sum}");
    assert!(counters.minor_faults >= 1, "{counters:?}");
    assert_eq!(counters.runnable_ns.is_some(), has_schedstat);
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat"));
    if let Some((read, text)) = second.runnable_ns.zip(text.ok()) {
        let now: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(read <= now, "{read} {now}");
    }
}

#[test]
fn a_descriptor_that_the_program_has_closed_is_not_read() {
    let tid = tracetee_os::thread_id();
    let Some(schedstat) = Descriptor::open(tid) else { return };
    assert!(runnable_ns(&schedstat, clock::thread_cpu_ns()).is_some());
    let fd = schedstat.get().unwrap().as_raw_fd();
    let file = tempfile::tempfile().unwrap();
    // SAFETY: two open descriptors; the first is closed by it.
    unsafe { libc::dup2(file.as_raw_fd(), fd) };
    assert_eq!(runnable_ns(&schedstat, clock::thread_cpu_ns()), None);
    // Another thread's account.
    std::io::Write::write_all(&mut &file, b"99000000000000 5 1\n").unwrap();
    assert_eq!(runnable_ns(&schedstat, clock::thread_cpu_ns()), None);
    drop(schedstat);
    // SAFETY: the copy made above, which the drop has left.
    assert_eq!(unsafe { libc::close(fd) }, 0);
}

#[test]
fn a_schedstat_may_be_a_second_behind_the_thread_s_processor_time() {
    let Some(schedstat) = Descriptor::open(tracetee_os::thread_id()) else { return };
    let fd = schedstat.get().unwrap().as_raw_fd();
    let file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut &file, b"5000000000 7 1\n").unwrap();
    // SAFETY: two open descriptors; the first is closed by it.
    unsafe { libc::dup2(file.as_raw_fd(), fd) };
    assert_eq!(runnable_ns(&schedstat, 6_100_000_000), Some(7), "a kernel without ticks");
    assert_eq!(runnable_ns(&schedstat, 6_100_000_001), None, "a file of the program");
    drop(schedstat);
    // SAFETY: the copy made above, which the drop has left.
    assert_eq!(unsafe { libc::close(fd) }, 0);
}

#[test]
fn a_thread_beyond_the_watched_ones_is_counted() {
    let states: Vec<ThreadState> = (1..=5)
        .map(|owner| {
            let state = ThreadState::new();
            state.owner.store(1_000 + owner, Ordering::Relaxed);
            state.tid.store(tracetee_os::thread_id(), Ordering::Relaxed);
            state
        })
        .collect();
    assert_eq!(states.iter().map(claim).collect::<Vec<_>>(), [1, 2, 3, 4, 0]);
    assert_eq!((claim(&states[1]), take_unwatched(), take_unwatched()), (2, 1, 0));
    WATCHES[0].free();
    assert_eq!((claim(&states[4]), take_unwatched()), (1, 0));
    forget();
}
