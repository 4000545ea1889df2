//! Parts that are written, damaged and merged.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Values of all sizes, zeros and saturated ones too.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        0_u64..200,
        (0_u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift),
        Just(u64::MAX)
    ]
}

fn histogram(most: usize) -> impl Strategy<Value = Histogram> {
    prop::collection::vec(number(), 0..=most).prop_map(|values| {
        let mut histogram = Histogram::default();
        values.iter().for_each(|&value| histogram.record(value));
        histogram
    })
}

fn counts() -> impl Strategy<Value = Counts> {
    prop::collection::vec(("[a-z_]{0,8}|\\PC{0,90}", 1_u64..9), 0..6).prop_map(|names| {
        let mut counts = Counts::default();
        names.iter().for_each(|(name, count)| counts.record(name, *count));
        counts
    })
}

fn key() -> impl Strategy<Value = RowKey> {
    let (pipeline, source) =
        (prop::sample::select(Pipeline::ALL), prop::sample::select(Source::ALL));
    ("[A-C]|\\PC{0,60}", prop_oneof![Just(60_000), any::<u32>()], pipeline, source).prop_map(
        |(screen, refresh_mhz, pipeline, source)| RowKey { screen, refresh_mhz, pipeline, source },
    )
}

fn row() -> impl Strategy<Value = Row> {
    (number(), any::<[u8; 6]>(), histogram(20)).prop_map(|(more, few, overrun_us)| {
        let [late, frozen, verdicts @ ..] = few.map(u64::from);
        let late = late + overrun_us.count();
        let frames = more.saturating_add(late + frozen + verdicts.iter().sum::<u64>());
        Row { frames, late, frozen, verdicts, overrun_us }
    })
}

prop_compose! {
    fn sums()(
        numbers in prop::array::uniform6(number()),
        starts in prop::collection::vec((0_usize..3, prop::option::of(number()), prop::option::of(number())), 0..9),
        peak_pss_kb in number(), exits in counts(), visible_exits in counts(),
        rows in prop::collection::vec((key(), row()), 0..12),
    ) -> Sums {
        let [observed_s, stood_still_s, sessions, slow_sessions, major_faults, own_cost_us] = numbers;
        let mut sums = Sums::default();
        (sums.observed_s, sums.stood_still_s, sums.sessions) = (observed_s, stood_still_s, sessions);
        (sums.slow_sessions, sums.major_faults) = (slow_sessions.min(sessions), major_faults);
        (sums.own_cost_us, sums.peak_pss_kb) = (own_cost_us, peak_pss_kb);
        (sums.exits, sums.visible_exits) = (exits, visible_exits);
        starts.iter().for_each(|&(kind, ttid, ttfd)| sums.start(StartType::ALL[kind], ttid, ttfd));
        rows.into_iter().for_each(|(key, row)| sums.row(key).merge(&row));
        sums
    }
}

prop_compose! {
    fn part()(
        day in any::<u32>(), version_code in number(), part in any::<u32>(), sums in sums(),
        segment in prop::collection::btree_map("[a-z]{1,8}", "\\PC{0,16}", 0..=MAX_ATTRIBUTES),
    ) -> Part {
        Part { day, version_code, part, segment: segment.into_iter().collect(), sums }
    }
}

/// A start, its end, and a frame, of a part (device, version, number).
#[derive(Debug, Clone)]
struct Event {
    of: [u32; 3],
    row: RowKey,
    starts: usize,
    ms: u64,
}

fn event() -> impl Strategy<Value = Event> {
    let refresh_mhz = prop::sample::select(&[60_000, 120_000]);
    let source = prop::sample::select(Source::ALL);
    let of = (0_u32..4, 0_u32..3, 0_u32..2).prop_map(<[u32; 3]>::from);
    let ms = (0_u64..1 << 13, 0_u32..13).prop_map(|(ms, shift)| ms >> shift);
    ("[A-C]?", refresh_mhz, source, of, 0_usize..3, ms).prop_map(
        |(screen, refresh_mhz, source, of, starts, ms)| {
            let row = RowKey { screen, refresh_mhz, pipeline: Pipeline::Views, source };
            Event { of, row, starts, ms }
        },
    )
}

/// The value that `per_mille` of all values do not exceed, in the middle of its bucket; `None` without a value.
pub(crate) fn quantile(all: &Histogram, per_mille: u32) -> Option<u64> {
    let rank = (u128::from(all.count()) * u128::from(per_mille)).div_ceil(1000).max(1);
    let mut below = 0;
    all.buckets().find_map(|(low, high, count)| {
        below += u128::from(count);
        (below >= rank).then_some(low + (high - low) / 2)
    })
}

/// Checks count, sum, and quantiles within their error.
fn is_histogram_of(found: &Histogram, values: &mut [u64]) -> Result<(), TestCaseError> {
    values.sort_unstable();
    let counts = [values.len() as u64, values.iter().sum()];
    prop_assert_eq!([found.count(), found.sum()], counts);
    for per_mille in [500, 900, 990] {
        let rank = (values.len() * per_mille as usize).div_ceil(1000);
        let exact = rank.checked_sub(1).map(|rank| values[rank]);
        let found = quantile(found, per_mille);
        let is_near = |(exact, found): (u64, u64)| exact.abs_diff(found) * 32 <= exact;
        prop_assert_eq!(exact.is_some(), found.is_some());
        prop_assert!(exact.zip(found).is_none_or(is_near), "{:?} {:?}", exact, found);
    }
    Ok(())
}

fn merged(mut sums: Sums, others: &[&Sums]) -> Sums {
    others.iter().for_each(|other| sums.merge(other));
    sums
}

proptest! {
    #[test]
    fn a_part_is_read_as_it_was_written(part in part()) {
        prop_assert_eq!(Part::decode(&part.encode().unwrap()), Some(part));
    }

    #[test]
    fn merging_is_associative_and_commutative(a in sums(), b in sums(), c in sums()) {
        prop_assert_eq!(merged(a.clone(), &[&b]), merged(b.clone(), &[&a]));
        prop_assert_eq!(merged(a.clone(), &[&b, &c]), merged(a.clone(), &[&merged(b.clone(), &[&c])]));
        prop_assert_eq!(merged(a.clone(), &[&Sums::default()]), a);
    }

    /// The oracle keeps all events in a list, and counts and sorts.
    #[test]
    fn parts_merged_in_any_order_have_by_version_what_is_counted_of_all_events(
        events in prop::collection::vec(event(), 0..150),
        picks in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 30),
    ) {
        let mut parts: BTreeMap<[u32; 3], Part> = BTreeMap::new();
        for Event { of: [device, version, part], row, starts, ms } in &events {
            let key = [*device, *version, *part];
            let made = Part { version_code: u64::from(*version), part: *part, ..Part::default() };
            let sums = &mut parts.entry(key).or_insert(made).sums;
            sums.start(StartType::ALL[*starts], Some(*ms), None);
            sums.exits.record(["anr", "crash"][starts % 2], 1);
            sums.peak_pss_kb = sums.peak_pss_kb.max(*ms);
            let row_of = sums.row(row.clone());
            row_of.frames += 1;
            row_of.frozen += u64::from(*ms > 700);
            if ms % 3 == 0 {
                row_of.late += 1;
                row_of.overrun_us.record(ms * 1000);
            }
        }
        // Two by two, of any version: the sums of the versions stay apart.
        let sent = parts.values().map(|part| Part::decode(&part.encode().unwrap()).unwrap());
        let mut heaps: Vec<BTreeMap<u64, Sums>> =
            sent.map(|part| BTreeMap::from([(part.version_code, part.sums)])).collect();
        for (one, other) in picks.iter().cycle() {
            if heaps.len() < 2 {
                break;
            }
            let one = heaps.swap_remove(one.index(heaps.len()));
            let at = other.index(heaps.len());
            for (version, sums) in one {
                heaps[at].entry(version).or_default().merge(&sums);
            }
        }
        let merged = heaps.pop().unwrap_or_default();
        for version in 0..3 {
            let own = || events.iter().filter(move |event| event.of[1] == version);
            let Some(sums) = merged.get(&u64::from(version)) else {
                prop_assert_eq!(own().count(), 0);
                continue;
            };
            let keys: BTreeSet<&RowKey> = own().map(|event| &event.row).collect();
            prop_assert!(keys.iter().copied().eq(sums.rows().iter().map(|(key, _)| key)));
            for (key, row) in sums.rows() {
                let times: Vec<u64> =
                    own().filter(|event| event.row == *key).map(|event| event.ms).collect();
                let mut late: Vec<u64> =
                    times.iter().filter(|ms| *ms % 3 == 0).map(|ms| ms * 1000).collect();
                let frozen = times.iter().filter(|ms| **ms > 700).count() as u64;
                let counts = [times.len() as u64, late.len() as u64, frozen];
                prop_assert_eq!([row.frames, row.late, row.frozen], counts);
                is_histogram_of(&row.overrun_us, &mut late)?;
            }
            for (number, start) in sums.starts.iter().enumerate() {
                let mut times: Vec<u64> =
                    own().filter(|event| event.starts == number).map(|event| event.ms).collect();
                let slow = times.iter().filter(|ms| **ms >= StartType::ALL[number].slow_ms());
                prop_assert_eq!([start.count, start.slow], [times.len(), slow.count()].map(|count| count as u64));
                is_histogram_of(&start.ttid_ms, &mut times)?;
            }
            let anrs = own().filter(|event| event.starts % 2 == 0).count() as u64;
            let exits: BTreeMap<&str, u64> = sums.exits.iter().collect();
            prop_assert_eq!(exits.get("anr").copied().unwrap_or(0), anrs);
            prop_assert_eq!(exits.values().sum::<u64>(), own().count() as u64);
            prop_assert_eq!(Some(sums.peak_pss_kb), own().map(|event| event.ms).max());
        }
    }

    #[test]
    fn damage_is_refused(part in part(), at in any::<prop::sample::Index>(), bits in 1_u8..=255, cut in any::<prop::sample::Index>()) {
        let whole = part.encode().unwrap();
        let mut changed = whole.clone();
        changed[at.index(whole.len())] ^= bits;
        prop_assert_eq!(Part::decode(&changed), None);
        prop_assert_eq!(Part::decode(&whole[..cut.index(whole.len())]), None);
        changed.clone_from(&whole);
        changed.push(0);
        prop_assert_eq!(Part::decode(&changed), None);
    }

    /// Bytes whose checksum fits are refused, or are the only ones of their part.
    #[test]
    fn equal_parts_have_equal_bytes(part in part(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = part.encode().unwrap();
        bytes.truncate(bytes.len() - 8);
        let index = at.index(bytes.len());
        bytes[index] = byte;
        let sum = codec::checksum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        if let Some(other) = Part::decode(&bytes) {
            prop_assert_eq!(other.encode(), Some(bytes));
        }
    }
}

#[test]
fn screens_beyond_the_limit_share_rows() {
    let mut sums = Sums::default();
    for screen in 0..1000 {
        let (pipeline, source) = (Pipeline::ALL[screen % 8], Source::ALL[screen % 3]);
        let refresh_mhz = 60_000 + u32::try_from(screen % 50).unwrap();
        sums.row(RowKey {
            screen: "é".repeat(100) + &screen.to_string(),
            refresh_mhz,
            pipeline,
            source,
        })
        .frames += 1;
        sums.exits.record(&screen.to_string(), 1);
    }
    assert_eq!(sums.rows().len(), MAX_ROWS);
    assert_eq!(sums.rows().iter().map(|row| row.1.frames).sum::<u64>(), 1000);
    assert_eq!(sums.exits.iter().count(), MAX_REASONS);
    assert_eq!(sums.exits.iter().map(|exit| exit.1).sum::<u64>(), 1000);
    let part = Part { sums, ..Part::default() };
    assert_eq!(Part::decode(&part.encode().unwrap()), Some(part));
}

#[test]
fn a_part_beyond_a_limit_has_no_encoding() {
    let mut part = Part::default();
    for row in 0..=u32::try_from(MAX_ROWS).unwrap() {
        let key = RowKey {
            screen: String::new(),
            refresh_mhz: row,
            pipeline: Pipeline::Views,
            source: Source::Markers,
        };
        let mut one = Sums::default();
        one.row(key).frames = 1;
        part.sums.merge(&one);
    }
    assert_eq!(part.encode(), None);
}

#[test]
fn counts_that_nothing_can_have_are_refused() {
    let is_taken = |change: fn(&mut Sums, &mut Row)| {
        let (mut part, mut row) = (Part::default(), Row { frames: 5, late: 2, ..Row::default() });
        row.overrun_us.record(100);
        change(&mut part.sums, &mut row);
        let screen = String::new();
        let (pipeline, source) = (Pipeline::Views, Source::JankData);
        part.sums.row(RowKey { screen, refresh_mhz: 0, pipeline, source }).merge(&row);
        part.encode().is_some()
    };
    assert!(is_taken(|_, _| ()));
    assert!(!is_taken(|_, row| row.late = 6));
    assert!(!is_taken(|_, row| row.frozen = 6));
    assert!(!is_taken(|_, row| row.verdicts = [2, 2, 1, 1]));
    assert!(!is_taken(|_, row| row.late = 0));
    assert!(!is_taken(|sums, _| sums.slow_sessions = 1));
    assert!(!is_taken(|sums, _| sums.starts[1].slow = 1));
    assert!(!is_taken(|sums, _| sums.starts[2].ttfd_ms.record(1)));
}

#[test]
fn a_number_has_one_form() {
    let nine = [0xff; 9];
    for (bytes, number) in [
        (vec![0], Some(0)),
        (vec![0x80, 1], Some(128)),
        (vec![0x80, 0], None),
        (nine.to_vec(), None),
        ([&nine[..], &[1]].concat(), Some(u64::MAX)),
        ([&nine[..], &[2]].concat(), None),
        ([&nine[..], &[0xff, 0]].concat(), None),
    ] {
        assert_eq!(codec::Reader::new(&bytes).number(), number, "{bytes:?}");
    }
}

#[test]
fn play_calls_slow_the_starts_from_5_2_and_1_5_seconds_on() {
    let mut sums = Sums::default();
    for (kind, ms) in StartType::ALL.into_iter().zip([5_000, 2_000, 1_500]) {
        sums.start(kind, Some(ms - 1), None);
        sums.start(kind, Some(ms), Some(ms + 1));
        sums.start(kind, None, None);
    }
    assert_eq!(
        sums.starts.each_ref().map(|start| (start.count, start.slow, start.ttfd_ms.count())),
        [(3, 1, 1); 3]
    );
}

/// The bytes of a device-day, compressed as they are sent: screens of which half have two refresh rates, 1 to 5 % of late
/// frames.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times that are made up need no precision"
)]
mod sizes {
    use super::*;

    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
        }

        fn below(&mut self, most: u64) -> u64 {
            self.next() % most
        }

        /// A time around `middle_us`: half as long or twice as long is one sigma away (a sum of 12 uniform numbers).
        fn around(&mut self, middle_us: f64) -> u64 {
            let sigmas =
                (0..12).map(|_| self.below(1 << 20) as f64 / f64::from(1 << 20)).sum::<f64>() - 6.0;
            (middle_us * sigmas.exp2()) as u64
        }
    }

    fn day(seed: u64, screens: u64, all_frames: u64) -> Part {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut part =
            Part { day: 20_000, version_code: 4_711_000 + seed % 3, part: 0, ..Part::default() };
        part.segment =
            vec![("plan".to_owned(), "premium".to_owned()), ("region".to_owned(), "eu".to_owned())];
        let sums = &mut part.sums;
        (sums.observed_s, sums.stood_still_s, sums.sessions) =
            (600 + random.below(12_000), random.below(900), 3 + random.below(40));
        (sums.slow_sessions, sums.major_faults) = (random.below(3), random.below(90_000));
        (sums.peak_pss_kb, sums.own_cost_us) =
            (random.around(300_000.0), random.around(2_000_000.0));
        for _ in 0..sums.sessions {
            let kind = StartType::ALL[usize::try_from(random.below(3)).unwrap()];
            let ms = random.around(700.0);
            sums.start(kind, Some(ms), Some(ms + random.around(400.0)));
        }
        for reason in ["low_memory", "user_requested", "anr", "other"] {
            sums.exits.record(reason, random.below(4));
        }
        for screen in 0..screens {
            for refresh_mhz in [120_000, 60_000] {
                // Most of them on few screens.
                let frames = all_frames / (screen + 1) / screens / 4;
                if refresh_mhz == 60_000 && screen % 2 == 1 {
                    continue;
                }
                let screen = format!("com.example.app.feature{screen}.Screen{screen}Activity");
                let key = RowKey {
                    screen,
                    refresh_mhz,
                    pipeline: Pipeline::Views,
                    source: Source::JankData,
                };
                let row = sums.row(key);
                row.frames = frames / 2 + random.below(frames);
                for _ in 0..row.frames * (1 + random.below(5)) / 100 {
                    row.late += 1;
                    row.overrun_us.record(random.around(6_000.0));
                }
                row.frozen = random.below(3).min(row.late);
                row.verdicts = [row.frames - row.late, row.late / 2, row.late / 5, 0];
            }
        }
        part
    }

    fn bytes(part: &Part) -> usize {
        zstd::bulk::compress(&part.encode().unwrap(), 1).unwrap().len()
    }

    /// Median and 99th percentile of the bytes of 300 days.
    fn quantiles(screens: u64, frames: u64) -> (usize, usize, f64) {
        let days: Vec<Part> = (0..300).map(|seed| day(seed, screens, frames)).collect();
        let mut sizes: Vec<usize> = days.iter().map(bytes).collect();
        sizes.sort_unstable();
        let all: u64 = days.iter().flat_map(|day| day.sums.rows()).map(|row| row.1.frames).sum();
        (sizes[150], sizes[297], all as f64 / 300.0)
    }

    #[test]
    fn a_device_day_of_8_screens_has_a_kilobyte() {
        for (screens, frames, most) in [
            (8, 50_000, 700),
            (8, 200_000, 1024),
            (8, 1_000_000, 1200),
            (20, 200_000, 1200),
            (48, 200_000, 1300),
        ] {
            let (median, p99, mean) = quantiles(screens, frames);
            println!("{screens} screens, {mean:.0} frames, compressed: median {median}, p99 {p99}");
            assert!(median <= most && p99 <= 2048, "{screens} screens: {median}, {p99}");
        }
    }
}
