//! Measures the cost of a record on this device, from which the overhead of a recording is computed.
//!
//! Records are made as libcutils makes them (formatted) and recorded as the hook does, into their own recorder, while no
//! capture runs. It does not measure the app's other costs of a record (Java's strings, the call).

use crate::error::Error;
use crate::host::HOST;
use std::time::Instant;
use tracetee_protocol::json::Decimal;
use tracetee_recorder::clock::{self, Anchor};
use tracetee_recorder::layout::Mode;
use tracetee_recorder::packed::Packed;
use tracetee_recorder::pool::{Pool, Shape};
use tracetee_recorder::record::Kind;
use tracetee_recorder::{session, thread};
use tracetee_tee::packed;

/// Rounds, of which the median counts, and records in each: some 200 µs together.
const ROUNDS: usize = 5;
const RECORDS: u32 = 400;

/// Measures the cost of a record, ns. Called under the capture's lock, while no session is open.
pub(crate) fn ns_per_record(earlier: Anchor) -> Result<Decimal, Error> {
    let shape = Shape {
        capacity_bytes: 256 * 1024,
        block_bytes: 16 * 1024,
        mode: Mode::Ring,
        path: None,
        anchors: clock::choose(earlier),
    };
    let pool = Box::new(Pool::create(&shape)?);
    session::open(&raw const *pool, u64::MAX, &HOST);
    let mut rounds = [0; ROUNDS];
    if let Some(state) = thread::current() {
        // The first touches memory for the first time.
        round(state);
        rounds.fill_with(|| round(state));
    }
    if !session::close(&pool) {
        // Another thread was writing to a marker just now, and is stopped in it.
        std::mem::forget(pool);
    }
    Ok(Decimal::ratio(median(rounds), RECORDS.into()))
}

/// The median, without the machinery of a sort.
fn median(mut rounds: [u64; ROUNDS]) -> u64 {
    for _ in 0..ROUNDS / 2 {
        if let Some(longest) = rounds.iter_mut().max() {
            *longest = 0;
        }
    }
    rounds.into_iter().max().unwrap_or(0)
}

/// Records, and measures the time, ns.
#[allow(clippy::disallowed_methods, reason = "a device that sleeps meanwhile spends nothing")]
fn round(state: &thread::ThreadState) -> u64 {
    let started = Instant::now();
    for number in 0..RECORDS {
        let mut buffer = [0u8; 1024];
        let name = c"Choreographer#doFrame";
        // SAFETY: a buffer of that size, and arguments as the format says.
        let len = unsafe {
            libc::snprintf(
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                c"B|%d|%s".as_ptr(),
                number,
                name.as_ptr(),
            )
        };
        let record = buffer.get(..usize::try_from(len).unwrap_or(0)).unwrap_or(&[]);
        let head = Packed::head(Kind::Begin, 0);
        packed::record(state, head, None, std::hint::black_box(record));
    }
    u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_has_as_many_rounds_below_as_above() {
        assert_eq!(median([5, 1, 4, 2, 3]), 3);
        assert_eq!(median([7, 7, 7, 1, 1]), 7);
        assert_eq!(median([0; ROUNDS]), 0);
    }
}
