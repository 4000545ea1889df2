//! Steps of a critical path that are joined: equal neighbours, and short ones among too many.

use super::*;

fn step(tid: u32, from_ns: u64, to_ns: u64) -> Raw {
    let span = Span {
        from_ns,
        to_ns,
        state: ThreadState::Running,
        cpu: 1,
        waker: Waker::Thread(7),
        reason: None,
    };
    Raw { tid: Some(tid), slice: Some(3), span, depth: 0, joined: 1, without: NO_SECTION }
}

#[test]
fn neighbours_that_differ_in_nothing_are_one_step() {
    let one = step(1, 0, 10);
    let next = step(1, 10, 25);
    let all = joined(vec![one, next]);
    assert_eq!(
        all.iter().map(|one| (one.span.from_ns, one.span.to_ns, one.joined)).collect::<Vec<_>>(),
        [(0, 25, 1)]
    );
    for other in [
        Raw { tid: Some(2), ..next },
        Raw { slice: Some(4), ..next },
        Raw { span: Span { state: ThreadState::Asleep, ..next.span }, ..next },
        Raw { span: Span { cpu: 2, ..next.span }, ..next },
        Raw { span: Span { waker: Waker::Interrupt, ..next.span }, ..next },
        Raw { without: LIMIT, ..next },
    ] {
        assert_eq!(joined(vec![one, other]).len(), 2, "{other:?}");
    }
}

/// Steps of threads 1 and 2 in turn, of these durations.
fn in_turn(durations: impl IntoIterator<Item = u64>) -> Vec<Raw> {
    let mut at_ns = 0;
    let step = |(n, ns): (usize, u64)| {
        let one = step(if n % 2 == 0 { 1 } else { 2 }, at_ns, at_ns + ns);
        at_ns += ns;
        one
    };
    durations.into_iter().enumerate().map(step).collect()
}

#[test]
fn of_more_than_64_steps_the_31_longest_stay_and_those_between_are_joined() {
    assert_eq!(joined(in_turn(vec![1; 64])).len(), 64);
    // Every second step is long; the first 31 of them stay, and the rest is one step.
    let all = joined(in_turn((0..65).map(|n| if n % 2 == 0 { 100 } else { 1 })));
    let ns: Vec<u64> = all.iter().map(Raw::ns).collect();
    assert_eq!(ns.len(), 62);
    assert_eq!((&ns[..3], ns[60], ns[61]), (&[100, 1, 100][..], 100, 1 + 100 + 1 + 100));
    assert_eq!(all.iter().map(|one| one.joined).sum::<u32>(), 65);
    // Of threads 2, 1, 2, 1, so that none is named; all ran.
    let rest = all.last().unwrap();
    assert_eq!((rest.tid, rest.joined, rest.span.state), (None, 4, ThreadState::Running));
    assert_eq!(rest.span.waker, Waker::Unknown);
}

#[test]
fn joined_steps_of_one_thread_in_several_states_name_the_thread_only() {
    let mut raw = in_turn(vec![100; 31]);
    for n in 0..34 {
        let mut one = step(9, 3_100 + n, 3_101 + n);
        one.span.state = if n % 2 == 0 { ThreadState::Runnable } else { ThreadState::Asleep };
        raw.push(one);
    }
    let all = joined(raw);
    let rest = all.last().unwrap();
    assert_eq!((rest.tid, rest.joined, rest.span.to_ns), (Some(9), 34, 3_134));
    assert_eq!(rest.span.state, ThreadState::Unknown);
}
