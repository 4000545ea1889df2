//! Parses records of trace_marker: `B|pid|name`, `E|pid` and their siblings.

use super::line::{decimal, digits};
use crate::model::{Counter, Losses};

/// A marker, with names as written, or interned. The time of day is in milliseconds since 1970; `parent_ts` and drivers'
/// messages are other kinds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Marker<N> {
    Begin { pid: u32, name: N },
    End,
    Async { begins: bool, pid: u32, track: Option<N>, name: N, cookie: i64 },
    Instant { pid: u32, track: Option<N>, name: N },
    Counter { pid: u32, name: N, value: Number },
    RealTime(u64),
    Other,
}

impl<N> Marker<N> {
    /// Replaces the names.
    pub(crate) fn map<M>(self, mut to: impl FnMut(N) -> M) -> Marker<M> {
        match self {
            Self::Begin { pid, name } => Marker::Begin { pid, name: to(name) },
            Self::End => Marker::End,
            Self::Async { begins, pid, track, name, cookie } => {
                let (track, name) = (track.map(&mut to), to(name));
                Marker::Async { begins, pid, track, name, cookie }
            }
            Self::Instant { pid, track, name } => {
                Marker::Instant { pid, track: track.map(&mut to), name: to(name) }
            }
            Self::Counter { pid, name, value } => Marker::Counter { pid, name: to(name), value },
            Self::RealTime(ms) => Marker::RealTime(ms),
            Self::Other => Marker::Other,
        }
    }
}

/// The value of a counter. Only our own text has fractions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Int(i64),
    Real(f64),
}

impl Number {
    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.trim();
        let real = || text.parse().ok().filter(|real: &f64| real.is_finite());
        text.parse().ok().map(Self::Int).or_else(|| real().map(Self::Real))
    }

    /// Returns it as a counter's value, and counts it if it has to be rounded.
    pub(crate) fn real(self, losses: &mut Losses) -> f64 {
        match self {
            Self::Int(value) => Counter::from_int(value, losses),
            Self::Real(value) => value,
        }
    }
}

/// Reads a marker.
pub(crate) fn parse(payload: &[u8]) -> Result<Marker<&[u8]>, &'static str> {
    let payload = payload.trim_ascii_end();
    let (kind, rest) = match payload {
        [kind, b'|', rest @ ..] => (*kind, rest),
        b"E" => return Ok(Marker::End),
        _ => {
            let ms = payload.strip_prefix(b"trace_event_clock_sync: realtime_ts=");
            return Ok(ms.and_then(decimal).map_or(Marker::Other, Marker::RealTime));
        }
    };
    match kind {
        b'E' => return Ok(Marker::End),
        b'B' | b'S' | b'F' | b'I' | b'C' | b'N' | b'G' | b'H' => {}
        _ => return Ok(Marker::Other),
    }
    let (pid, rest) = pid(rest).ok_or("the pid is not a number")?;
    let rest = rest.ok_or("ends after the pid")?;
    match kind {
        b'B' => Ok(Marker::Begin { pid, name: rest }),
        b'I' => Ok(Marker::Instant { pid, track: None, name: rest }),
        b'C' => {
            // Perfetto's ftrace text has no `|` in a counter's name, so this text must not have one.
            let (name, value) = last_field(rest).ok_or("a counter has no value")?;
            // A fourth field is the category, written by userdebug builds.
            let (name, value) = match (Number::parse(value), last_field(name)) {
                (None, Some((name, value))) => (name, value),
                _ => (name, value),
            };
            let value = Number::parse(value).ok_or("the value of a counter is not a number")?;
            Ok(Marker::Counter { pid, name, value })
        }
        b'N' => {
            let (track, name) = field(rest);
            let name = name.ok_or("an instant on a track has no name")?;
            Ok(Marker::Instant { pid, track: Some(track), name })
        }
        b'S' | b'F' => {
            let (name, cookie) = last_field(rest).ok_or("an async section has no cookie")?;
            let cookie = number(cookie).ok_or("the cookie is not a number")?;
            Ok(Marker::Async { begins: kind == b'S', pid, track: None, name, cookie })
        }
        _ => {
            let (track, rest) = field(rest);
            let rest = rest.ok_or("an async section on a track has no cookie")?;
            // An end has its name (Android 12), or none (since 13).
            let (name, cookie) = last_field(rest).unwrap_or((b"", rest));
            let cookie = number(cookie).ok_or("the cookie is not a number")?;
            Ok(Marker::Async { begins: kind == b'G', pid, track: Some(track), name, cookie })
        }
    }
}

/// Replacement for an empty name, which readers accept only in a B record.
pub const NO_NAME: &str = "(no name)";

/// True for the name of a section that represents a frame, with or without a vsync id; `… - resynced to …` is inside one.
pub(crate) fn is_frame(name: &[u8]) -> bool {
    name.strip_prefix(b"Choreographer#doFrame").is_some_and(|rest| {
        rest.is_empty()
            || rest
                .strip_prefix(b" ")
                .is_some_and(|id| !id.is_empty() && id.iter().all(u8::is_ascii_digit))
    })
}

/// Replaces empty names and tracks of a marker by [`NO_NAME`]; `None` if nothing is empty.
#[must_use]
pub fn with_names(payload: &[u8]) -> Option<Vec<u8>> {
    let payload = payload.trim_ascii_end();
    let may_be = matches!(payload, [b'S' | b'F' | b'C' | b'I' | b'N' | b'G' | b'H', b'|', ..])
        && (payload.ends_with(b"|") || memchr::memmem::find(payload, b"||").is_some());
    if !may_be {
        return None;
    }
    rename(payload, |name| name.is_empty().then(|| NO_NAME.to_owned()))
}

/// Replaces names and tracks of a marker for which `new` returns another one; `None` if none is replaced.
pub(crate) fn rename(payload: &[u8], new: impl Fn(&[u8]) -> Option<String>) -> Option<Vec<u8>> {
    let payload = payload.trim_ascii_end();
    let mut is_new = false;
    let mut text = |name: &[u8]| match new(name) {
        Some(new) => {
            is_new = true;
            new.into_bytes()
        }
        None => name.to_vec(),
    };
    let (pid, names, last) = match parse(payload).ok()? {
        Marker::Begin { pid, name } | Marker::Instant { pid, track: None, name } => {
            (pid, vec![text(name)], None)
        }
        Marker::Async { pid, track: None, name, cookie, .. } => {
            (pid, vec![text(name)], Some(cookie.to_string()))
        }
        Marker::Async { begins: true, pid, track: Some(track), name, cookie } => {
            (pid, vec![text(track), text(name)], Some(cookie.to_string()))
        }
        // Since Android 13 an end has no name.
        Marker::Async { pid, track: Some(track), cookie, .. } => {
            (pid, vec![text(track)], Some(cookie.to_string()))
        }
        Marker::Instant { pid, track: Some(track), name } => {
            (pid, vec![text(track), text(name)], None)
        }
        Marker::Counter { pid, name, value: Number::Int(value) } => {
            (pid, vec![text(name)], Some(value.to_string()))
        }
        Marker::Counter { pid, name, value: Number::Real(value) } => {
            (pid, vec![text(name)], Some(value.to_string()))
        }
        Marker::End | Marker::RealTime(_) | Marker::Other => return None,
    };
    let mut fields = vec![vec![*payload.first()?], pid.to_string().into_bytes()];
    fields.extend(names);
    fields.extend(last.map(String::into_bytes));
    is_new.then(|| fields.join(&b'|'))
}

/// The field at the beginning, a number, and the others.
fn pid(text: &[u8]) -> Option<(u32, Option<&[u8]>)> {
    let (pid, count) = digits(text)?;
    let rest = text.get(count..)?;
    let rest = if rest.is_empty() { None } else { Some(rest.strip_prefix(b"|")?) };
    Some((u32::try_from(pid).ok()?, rest))
}

fn field(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'|', text).and_then(|bar| text.split_at_checked(bar)) {
        Some((field, rest)) => (field, rest.get(1..)),
        None => (text, None),
    }
}

fn last_field(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (before, rest) = text.split_at_checked(memchr::memrchr(b'|', text)?)?;
    Some((before, rest.get(1..)?))
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read() {
        let some = |text: &'static str| Some(text.as_bytes());
        let markers: &[(&str, Marker<&[u8]>)] = &[
            ("B|5|a|b", Marker::Begin { pid: 5, name: b"a|b" }),
            ("B|5|", Marker::Begin { pid: 5, name: b"" }),
            ("E|5", Marker::End),
            ("E", Marker::End),
            ("E|5|name", Marker::End),
            (
                "S|5|a|-3",
                Marker::Async { begins: true, pid: 5, track: None, name: b"a", cookie: -3 },
            ),
            (
                "F|5|a|3",
                Marker::Async { begins: false, pid: 5, track: None, name: b"a", cookie: 3 },
            ),
            (
                "C|5|heap size|12",
                Marker::Counter { pid: 5, name: b"heap size", value: Number::Int(12) },
            ),
            ("C|5|heap|12|gfx", Marker::Counter { pid: 5, name: b"heap", value: Number::Int(12) }),
            ("C|5|load|3.75", Marker::Counter { pid: 5, name: b"load", value: Number::Real(3.75) }),
            ("I|5|now", Marker::Instant { pid: 5, track: None, name: b"now" }),
            ("N|5|t|now", Marker::Instant { pid: 5, track: some("t"), name: b"now" }),
            (
                "G|5|t|a|3",
                Marker::Async { begins: true, pid: 5, track: some("t"), name: b"a", cookie: 3 },
            ),
            (
                "H|5|t|3",
                Marker::Async { begins: false, pid: 5, track: some("t"), name: b"", cookie: 3 },
            ),
            (
                "H|5|t|a|3",
                Marker::Async { begins: false, pid: 5, track: some("t"), name: b"a", cookie: 3 },
            ),
            ("trace_event_clock_sync: realtime_ts=17", Marker::RealTime(17)),
            ("trace_event_clock_sync: parent_ts=0.5", Marker::Other),
            ("hello", Marker::Other),
            ("Z|5|x", Marker::Other),
        ];
        for &(text, marker) in markers {
            assert_eq!(parse(text.as_bytes()), Ok(marker), "{text}");
        }
        for wrong in
            ["B|x|a", "B|5", "S|5|a", "S|5|a|x", "C|5|a", "C|5|a|x", "N|5|t", "G|5|t", "H|5|t|x"]
        {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_are_too_much_for_it(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }
    }
}
