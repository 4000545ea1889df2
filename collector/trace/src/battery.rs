//! The battery's history (`dumpsys batterystats --checkin`), alone or in the text of a bug report: the device's states as
//! counters, its events as instants, and wake locks.

use crate::builder::Builder;
use crate::error::Error;
use crate::model::{MAX_NS, Trace};
use crate::names::NameId;
use crate::text::details::Details;
use crate::text::marker::{Marker, Number};
use crate::text::{TakeLine, decimal, read_lines};
use std::collections::HashMap;
use std::io::BufRead;

/// Begin of a history; a version follows. Each line begins with [`LINE`].
const BEGIN: &[u8] = b"9,0,i,vers,";
const LINE: &[u8] = b"9,";
/// Begin of a bug report's text.
const REPORT: &[u8] = b"========================================================\n== dumpstate";
/// Items, a line each: kind, name in the history, name, and the names of the values 0, 1 and so on. From Android's
/// BatteryStats.java; the names are trace_processor's.
const ITEMS: &str = include_str!("battery.txt");
/// Since this version, the end of a wake lock says of which.
const NAMES_WAKE_LOCKS: u64 = 36;
/// Limit of the texts that events refer to.
const MAX_TEXTS: usize = 1 << 16;
/// Limit of the items; the bug report of Perfetto's tests has 16,482.
const MAX_ITEMS: usize = 1 << 20;

/// True if a text begins as a history or a bug report does.
pub(crate) fn begins(text: &[u8]) -> bool {
    text.starts_with(BEGIN) || text.starts_with(REPORT)
}

/// Reads a history. Times are those of the wall clock.
///
/// # Errors
/// [`Error::Broken`] if it cannot be read, [`Error::NoTrace`] if it has no items.
pub(crate) fn read<R: BufRead>(text: R) -> Result<Trace, Error> {
    let items = ITEMS.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (kind, short) = (words.next()?, words.next()?);
        Some((short, Item { kind, name: words.next()?, values: words.collect() }))
    });
    let mut reader = Reader { items: items.collect(), ..Reader::default() };
    read_lines(text, &mut reader)?;
    let Reader { mut builder, mut markers, .. } = reader;
    if markers.is_empty() {
        let why = "it has no trace and no history of the battery";
        return Err(Error::NoTrace(why.to_owned()));
    }
    // The time of day may be set back.
    markers.sort_by_key(|&(at_ns, _)| at_ns);
    let device = builder.new_thread(0, None);
    for (at_ns, marker) in markers {
        builder.at(device, at_ns);
        _ = builder.mark(device, at_ns, marker, &Details::default());
    }
    Ok(builder.finish())
}

struct Item {
    kind: &'static str,
    name: &'static str,
    values: Vec<&'static str>,
}

#[derive(Default)]
struct Reader {
    builder: Builder,
    markers: Vec<(u64, Marker<NameId>)>,
    /// Items by their names in the history.
    items: HashMap<&'static str, Item>,
    /// The user id and the text that an index in the history means.
    texts: HashMap<u64, (i64, NameId)>,
    in_history: bool,
    version: u64,
    at_ms: u64,
}

impl TakeLine for Reader {
    fn take(&mut self, line: &[u8]) {
        self.builder.trace.losses.lines += 1;
        if let Some(version) = line.strip_prefix(BEGIN) {
            let version = version.split(|&byte| byte == b',').next().unwrap_or_default();
            (self.in_history, self.version) = (true, decimal(version).unwrap_or(0));
        }
        let Some(rest) = line.strip_prefix(LINE).filter(|_| self.in_history) else {
            self.in_history = false;
            return;
        };
        let rest = String::from_utf8_lossy(rest);
        let taken = match rest.trim_end().split_once(',') {
            Some(("hsp", text)) => self.take_text(text),
            Some(("h", items)) => self.take_items(items),
            _ => Some(()),
        };
        if taken.is_none() {
            let losses = &mut self.builder.trace.losses;
            losses.bad(losses.lines, "no time or text of the battery's history", line);
        }
    }

    fn builder(&mut self) -> &mut Builder {
        &mut self.builder
    }
}

impl Reader {
    /// Takes a text that events refer to: `INDEX,UID,"TEXT"`.
    fn take_text(&mut self, line: &str) -> Option<()> {
        let (index, line) = line.split_once(',')?;
        let (uid, text) = line.split_once(',')?;
        let text = text.strip_prefix('"')?.strip_suffix('"')?;
        if self.texts.len() == MAX_TEXTS {
            self.builder.not_read("texts of the battery's history", 1);
            return Some(());
        }
        let name = self.builder.trace.names.id(text.as_bytes());
        self.texts.insert(index.parse().ok()?, (uid.parse().ok()?, name));
        Some(())
    }

    /// Takes a moment: `MS_SINCE_THE_LAST,ITEM,…`, or the time of day.
    fn take_items(&mut self, line: &str) -> Option<()> {
        let mut parts = line.split(',');
        let time = parts.next()?;
        match time.split_once(':') {
            Some((_, note)) => match note.rsplit_once("TIME:") {
                Some((_, ms)) => self.at_ms = ms.parse().ok()?,
                None => return Some(()),
            },
            None => self.at_ms = self.at_ms.checked_add(time.parse().ok()?)?,
        }
        let at_ns = self.at_ms.checked_mul(1_000_000).filter(|&ns| ns <= MAX_NS)?;
        for part in parts.filter(|part| !part.is_empty()) {
            match self.marker(part) {
                Some(_) if self.markers.len() >= MAX_ITEMS => {
                    self.builder.not_read("items of the battery's history", 1);
                }
                Some(marker) => {
                    let markers = [Some(marker), self.screen_state(part)].into_iter().flatten();
                    self.markers.extend(markers.map(|marker| (at_ns, marker)));
                }
                None if matches!(part, "+w" | "-w") => {
                    self.builder.not_read("wake locks without a name", 1);
                }
                None => self.builder.not_read("unknown items of the battery's history", 1),
            }
        }
        Some(())
    }

    /// Returns the screen's state (off is 1, on is 2) as Perfetto's captures have it.
    fn screen_state(&mut self, part: &str) -> Option<Marker<NameId>> {
        let value = match part {
            "-S" => 1,
            "+S" => 2,
            _ => return None,
        };
        let name = self.builder.trace.names.id(b"ScreenState");
        Some(Marker::Counter { pid: 0, name, value: Number::Int(value) })
    }

    /// Reads an item: `+NAME`, `-NAME`, `NAME=VALUE`, or an event's `+NAME=TEXT`.
    fn marker(&mut self, part: &str) -> Option<Marker<NameId>> {
        let (short, value) = part.split_once('=').unwrap_or((part, ""));
        let key = short.trim_start_matches(['+', '-']);
        let sign = &short[..short.len() - key.len()];
        let item = self.items.get(key)?;
        let text = || self.texts.get(&value.parse().ok()?).copied();
        let names = &mut self.builder.trace.names;
        let value = match (sign, value) {
            (_, value) if item.kind == "event" && !value.is_empty() => {
                let (uid, name) = text()?;
                let name = format!("{sign}{}={uid}:\"{}\"", item.name, names.text(name));
                let track = names.id(format!("battery_stats.{}", item.name).as_bytes());
                let name = names.id(name.as_bytes());
                return Some(Marker::Instant { pid: 0, track: Some(track), name });
            }
            ("+" | "-", lock) if key == "w" && self.version >= NAMES_WAKE_LOCKS => {
                let (cookie, (_, name)) = (lock.parse().ok()?, text()?);
                let track = Some(names.id(b"WakeLocks"));
                return Some(Marker::Async { begins: sign == "+", pid: 0, track, name, cookie });
            }
            ("+", "") if key != "w" => 1,
            ("-", "") if key != "w" => 0,
            ("", value) => match item.values.iter().position(|&name| name == value) {
                Some(index) => i64::try_from(index).ok()?,
                None if item.kind == "milli" => value.parse::<i64>().ok()?.checked_mul(1000)?,
                None => value.parse().ok()?,
            },
            _ => return None,
        };
        let name = names.id(item.name.as_bytes());
        Some(Marker::Counter { pid: 0, name, value: Number::Int(value) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, read_any};
    use std::io::Cursor;

    const HISTORY: &str = "9,0,i,vers,36,211,SPB5,SPB5\n\
        9,hsp,0,10217,\"com.android.systemui\"\n\
        9,hsp,1,1000,\"*alarm*:a,\"b\"\"\n\
        9,hsp,2,[PHONE_NUMBER],\"x\"\n\
        9,h,0:RESET:TIME:1000000\n\
        9,h,0,Bl=99,Bs=d,Bv=4200,Bp=u,+S,Pcn=lte,+Etp=0\n\
        9,h,0:START\n\
        9,h,250,+w=1,-Etp=0,Sb=3,Zz=1,-w\n\
        9,h,50,-w=1,-S,-Etp=7\n\
        9,h,soon,+S\n\
        9,0,l,bt,0\n";

    fn read_text(text: &str) -> Trace {
        read_any(Cursor::new(text.as_bytes().to_vec())).unwrap()
    }

    #[test]
    fn states_are_counters_and_events_are_instants_at_the_time_of_day() {
        let report = format!("{}\n== a\n9,h,1,+S\n{HISTORY}------ 1s\n9,h,9,+S\n", "=".repeat(56));
        let report = report.replace("== a", "== dumpstate: a");
        assert_eq!(Kind::of(report.as_bytes()), Kind::Battery);
        for text in [HISTORY, &report] {
            let trace = read_text(text);
            let text = |id| trace.names.text(id);
            let ms = |ns: u64| ns / 1_000_000;
            let counters = trace.counters.iter().map(|one| {
                assert_eq!(one.pid, 0);
                format!("{} {}={}", ms(one.at_ns), text(one.name), one.value)
            });
            let expected = [
                "1000000 batt.capacity_pct=99",
                "1000000 BatteryStatus=3",
                "1000000 batt.voltage_uv=4200000",
                "1000000 PlugType=2",
                "1000000 battery_stats.screen=1",
                "1000000 ScreenState=2",
                "1000000 battery_stats.data_conn=13",
                "1000250 battery_stats.brightness=3",
                "1000300 battery_stats.screen=0",
                "1000300 ScreenState=1",
            ];
            assert_eq!(counters.collect::<Vec<_>>(), expected);
            let instants = trace.instants.iter().map(|one| {
                format!("{} {} {}", ms(one.at_ns), text(one.track.unwrap()), text(one.name))
            });
            let expected = [
                "1000000 battery_stats.top +top=10217:\"com.android.systemui\"",
                "1000250 battery_stats.top -top=10217:\"com.android.systemui\"",
            ];
            assert_eq!(instants.collect::<Vec<_>>(), expected);
            let asyncs = trace.asyncs.iter().map(|one| {
                (text(one.name), text(one.track.unwrap()), ms(one.start_ns), ms(one.end_ns))
            });
            let expected = [("*alarm*:a,\"b\"", "WakeLocks", 1_000_250, 1_000_300)];
            assert_eq!(asyncs.collect::<Vec<_>>(), expected);
            let unread = |what| trace.losses.unread[what];
            assert_eq!(unread("unknown items of the battery's history"), 2);
            assert_eq!((unread("wake locks without a name"), trace.losses.bad_lines), (1, 2));
        }
    }

    #[test]
    fn items_are_in_the_order_of_time_also_if_the_time_of_day_is_set_back() {
        let trace =
            read_text("9,0,i,vers,36\n9,h,0:TIME:9000\n9,h,7,+S\n9,h,1:TIME:2000\n9,h,5,-S\n");
        let counters = trace.counters.iter().map(|one| (one.at_ns / 1_000_000, one.value));
        assert_eq!(
            counters.collect::<Vec<_>>(),
            [(2005, 0.0), (2005, 1.0), (9007, 1.0), (9007, 2.0)]
        );
        assert_eq!(
            (trace.losses.out_of_order, trace.span_ns),
            (0, Some((2_005_000_000, 9_007_000_000)))
        );
    }

    #[test]
    fn a_report_without_a_history_is_refused() {
        for text in ["9,0,i,vers,36,211\n9,0,l,bt\n", std::str::from_utf8(REPORT).unwrap()] {
            let error = read_any(Cursor::new(text.as_bytes().to_vec())).unwrap_err().to_string();
            assert!(error.contains("no history of the battery"), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_history_is_too_much_for_it(
            lines in "(9,h,|9,hsp,|[+-]|[0-9]{1,20}|:TIME:|,|=|w|Etp|Bv|\"|é|\n){0,60}",
        ) {
            let _ = read(format!("9,0,i,vers,36\n{lines}").as_bytes());
        }
    }
}
