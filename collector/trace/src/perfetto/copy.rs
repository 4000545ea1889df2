//! Copies a trace packet by packet. Names are restored, and sequences get separate ids; everything else stays unchanged,
//! including unknown data.

use super::fields::{
    annotation, ftrace_bundle, ftrace_event, interned, interned_data, packet, print,
    process_descriptor, thread_descriptor, trace, track_descriptor, track_event,
};
use super::packets::{self, Take};
use super::wire::{Fields, Malformed, Value, put_bytes, put_number};
use crate::error::Error;
use crate::mapping::Mapping;
use crate::text::rename;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Write};

/// Limit of the sequences of an output; a device has some hundreds.
const MAX_SEQUENCES: usize = 1 << 16;
/// Depth up to which names of arguments are restored; Perfetto's SDK nests a few.
const MAX_DEPTH: u32 = 32;

/// A field of a message with names.
enum Rule {
    /// A name.
    Name,
    /// A record of atrace.
    Marker,
    /// A message.
    Into(&'static [(u32, Self)]),
}

use Rule::{Into, Marker, Name};

/// The fields of a packet whose names a mapping restores.
static PACKET: [(u32, Rule); 4] = [
    (packet::ftrace_events, Into(&[(ftrace_bundle::event, Into(&FTRACE_EVENT))])),
    (packet::track_event, Into(&TRACK_EVENT)),
    (packet::interned_data, Into(&INTERNED_DATA)),
    (packet::track_descriptor, Into(&TRACK)),
];
static FTRACE_EVENT: [(u32, Rule); 1] = [(ftrace_event::print, Into(&[(print::buf, Marker)]))];
static TRACK_EVENT: [(u32, Rule); 2] =
    [(track_event::debug_annotations, Into(&ANNOTATION)), (track_event::name, Name)];
static INTERNED_DATA: [(u32, Rule); 3] = [
    (interned_data::event_names, Into(&INTERNED)),
    (interned_data::function_names, Into(&INTERNED)),
    (interned_data::debug_annotation_string_values, Into(&INTERNED)),
];
static INTERNED: [(u32, Rule); 1] = [(interned::name, Name)];
static TRACK: [(u32, Rule); 3] = [
    (track_descriptor::name, Name),
    (track_descriptor::static_name, Name),
    (track_descriptor::thread, Into(&[(thread_descriptor::thread_name, Name)])),
];
static ANNOTATION: [(u32, Rule); 4] = [
    (annotation::string_value, Name),
    (annotation::legacy_json_value, Name),
    (annotation::dict_entries, Into(&ANNOTATION)),
    (annotation::array_values, Into(&ANNOTATION)),
];

/// Tracks of processes and threads, by process id and, of a thread, its own id.
pub type TrackIds = HashMap<(u32, Option<u32>), u64>;

/// The ids of sequences in an output: those of each copied trace, and of other packets written there.
#[derive(Debug, Default)]
pub struct SequenceIds {
    taken: HashSet<u32>,
    next: u32,
    /// Tracks that the copied traces have for their processes and threads.
    pub tracks: TrackIds,
}

impl SequenceIds {
    /// Reserves an id, for a writer that needs exactly this one.
    #[must_use]
    pub fn with(id: u32) -> Self {
        Self { taken: HashSet::from([id]), next: 1 << 24, tracks: TrackIds::new() }
    }

    /// Takes this id, or another one if it is taken.
    fn take(&mut self, id: u32) -> Option<u32> {
        if self.taken.len() >= MAX_SEQUENCES {
            return None;
        }
        if self.taken.insert(id) {
            return Some(id);
        }
        while !self.taken.insert(self.next) {
            self.next = self.next.wrapping_add(1);
        }
        Some(self.next)
    }
}

/// Counts of a copy.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Packets written.
    pub packets: u64,
    /// Packets in which names were restored.
    pub renamed: u64,
    /// Fields of the file that are not packets, and compressed packets that cannot be unpacked; omitted.
    pub bad: u64,
    /// Position at which the file ended early or became unreadable, and the reason.
    pub truncated: Option<(u64, String)>,
}

/// Copies a trace to `out`; compressed packets are unpacked. Names in `mapping` are restored, and sequence ids already in
/// `ids` are replaced.
///
/// # Errors
/// [`Error::Io`] of `out`; [`Error::At`] if the trace has more sequences than can be distinguished.
pub fn copy<R: BufRead>(
    mut trace: R,
    mapping: Option<&Mapping>,
    ids: &mut SequenceIds,
    out: &mut impl Write,
) -> Result<Copied, Error> {
    let mapping = mapping.filter(|mapping| mapping.has_classes() || mapping.has_methods());
    let own = HashMap::new();
    let mut copier =
        Copier { mapping, ids, own, out, head: Vec::new(), copied: Copied::default(), error: None };
    let end = packets::walk(&mut trace, &mut copier, packets::MAX_UNPACKED_BYTES);
    let Copier { mut copied, error, .. } = copier;
    if let Some(error) = error {
        return Err(error);
    }
    copied.truncated = end.error.map(|error| (end.at, error.to_string()));
    Ok(copied)
}

struct Copier<'a, W> {
    mapping: Option<&'a Mapping>,
    ids: &'a mut SequenceIds,
    /// Ids in the output by those in the trace.
    own: HashMap<u32, u32>,
    out: &'a mut W,
    /// Buffer for a packet's tag and length.
    head: Vec<u8>,
    copied: Copied,
    error: Option<Error>,
}

impl<W: Write> Take for Copier<'_, W> {
    fn packet(&mut self, packet: &[u8]) -> bool {
        // An unreadable packet stays unchanged.
        let renamed = self
            .mapping
            .and_then(|mapping| renamed_message(mapping, &PACKET, packet, 0).ok().flatten());
        self.copied.renamed += u64::from(renamed.is_some());
        note_track(packet, &mut self.ids.tracks);
        let packet = renamed.map_or(Cow::Borrowed(packet), Cow::Owned);
        let written = self.renumbered(&packet).and_then(|packet| self.write(&packet));
        self.error = written.err();
        self.error.is_none()
    }

    fn bad(&mut self, _: &'static str, _: &[u8]) {
        self.copied.bad += 1;
    }
}

impl<W: Write> Copier<'_, W> {
    /// Gives a packet's sequence its id in the output.
    fn renumbered<'p>(&mut self, packet: &'p [u8]) -> Result<Cow<'p, [u8]>, Error> {
        let id = sequence_id(packet);
        let known = self.own.get(&id).copied();
        let new = match known.or_else(|| self.ids.take(id)) {
            Some(new) => new,
            None => {
                let why = format!("more than {MAX_SEQUENCES} sequences of packets");
                return Err(Error::At { offset: self.copied.packets, why });
            }
        };
        self.own.insert(id, new);
        if new == id {
            return Ok(Cow::Borrowed(packet));
        }
        // Of a duplicate field, the last value counts.
        let mut numbered = packet.to_vec();
        put_number(&mut numbered, packet::trusted_packet_sequence_id, new.into());
        Ok(Cow::Owned(numbered))
    }

    fn write(&mut self, packet: &[u8]) -> Result<(), Error> {
        self.head.clear();
        put_bytes(&mut self.head, trace::packet, packet.len(), &[]);
        let written = self.out.write_all(&self.head).and_then(|()| self.out.write_all(packet));
        self.copied.packets += 1;
        written.map_err(Error::Io)
    }
}

/// Notes the track that a packet describes, if it is the first one of a process or thread.
fn note_track(packet: &[u8], tracks: &mut TrackIds) -> Option<()> {
    let track = last(packet, packet::track_descriptor)?.bytes().ok()?;
    let number = |message, field| last(message, field).and_then(|value| value.u32().ok());
    let thread = last(track, track_descriptor::thread).and_then(|value| value.bytes().ok());
    let owner = match thread {
        Some(thread) => {
            (number(thread, thread_descriptor::pid)?, number(thread, thread_descriptor::tid))
        }
        None => {
            let process = last(track, track_descriptor::process)?.bytes().ok()?;
            (number(process, process_descriptor::pid)?, None)
        }
    };
    let uuid = last(track, track_descriptor::uuid)?.number().ok()?;
    if tracks.len() < MAX_SEQUENCES {
        tracks.entry(owner).or_insert(uuid);
    }
    Some(())
}

/// The value of a field; of one that is there twice the last counts.
fn last(message: &[u8], field: u32) -> Option<Value<'_>> {
    let fields = Fields::of(message).map_while(Result::ok);
    fields.filter(|&(number, _)| number == field).last().map(|(_, value)| value)
}

/// The id of a packet's sequence, or 0.
fn sequence_id(packet: &[u8]) -> u32 {
    let id = last(packet, packet::trusted_packet_sequence_id);
    id.and_then(|value| value.u32().ok()).unwrap_or(0)
}

/// Returns a message with names restored as the rules say; `None` if none was.
fn renamed_message(
    mapping: &Mapping,
    rules: &[(u32, Rule)],
    message: &[u8],
    depth: u32,
) -> Result<Option<Vec<u8>>, Malformed> {
    let mut out: Option<Vec<u8>> = None;
    let (mut fields, mut at) = (Fields::of(message), 0);
    while let Some(field) = fields.next() {
        let (number, value) = field?;
        let end = message.len() - fields.left();
        let rule = rules.iter().find(|&&(field, _)| field == number);
        let new = match (rule, value) {
            (Some((_, rule)), Value::Bytes(bytes)) if depth < MAX_DEPTH => {
                renamed_value(mapping, rule, bytes, depth)?
            }
            _ => None,
        };
        if let Some(new) = new {
            let before = || message.get(..at).unwrap_or_default().to_vec();
            put_bytes(out.get_or_insert_with(before), number, new.len(), &new);
        } else if let Some(out) = &mut out {
            out.extend_from_slice(message.get(at..end).unwrap_or_default());
        }
        at = end;
    }
    Ok(out)
}

fn renamed_value(
    mapping: &Mapping,
    rule: &Rule,
    bytes: &[u8],
    depth: u32,
) -> Result<Option<Vec<u8>>, Malformed> {
    let new = |name: &[u8]| mapping.renamed(std::str::from_utf8(name).ok()?);
    Ok(match rule {
        Name => new(bytes).map(String::into_bytes),
        // A line break would end the record.
        Marker => rename(bytes, |name| new(name).map(|new| new.replace('\n', " "))),
        Into(rules) => renamed_message(mapping, rules, bytes, depth + 1)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field that is a message, or a number.
    fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_bytes(&mut out, number, bytes.len(), bytes);
        out
    }

    fn number(field: u32, value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(&mut out, field, value);
        out
    }

    fn copied(packets: &[Vec<u8>], mapping: &str, ids: &mut SequenceIds) -> (Vec<u8>, Copied) {
        let trace: Vec<u8> = packets.iter().flat_map(|packet| field(1, packet)).collect();
        let (mapping, mut out) = (Mapping::parse(mapping).unwrap(), Vec::new());
        let copied = copy(&*trace, Some(&mapping), ids, &mut out).unwrap();
        (out, copied)
    }

    #[test]
    fn names_are_restored_wherever_they_are_and_unknown_fields_stay() {
        let packet = |name: &str, method: &str| {
            let annotation = field(4, &field(11, &field(12, &field(6, name.as_bytes()))));
            let event = [annotation, field(23, method.as_bytes()), field(9999, b"a.b")].concat();
            let print = field(3, &field(2, format!("B|5|{method}").as_bytes()));
            [
                field(7777, b"a.b.c"),
                field(11, &event),
                number(8, 12),
                field(12, &field(5, &[number(1, 3), field(2, method.as_bytes())].concat())),
                field(1, &field(2, &print)),
                number(10, 5),
            ]
            .concat()
        };
        let mapping = "com.example.Feed -> a.b:\n    void bind() -> c\n";
        let before = [packet("a.b", "a.b.c"), field(60, &field(2, b"other"))];
        let (out, counts) = copied(&before, mapping, &mut SequenceIds::default());
        let after = packet("com.example.Feed", "com.example.Feed.bind");
        assert_eq!(out, [field(1, &after), field(1, &before[1])].concat());
        assert_eq!((counts.packets, counts.renamed, counts.bad), (2, 1, 0));
        // A mapping without names, and packets that are none, change nothing.
        let odd = [before[0].clone(), vec![0xff, 0xff]];
        let (out, _) = copied(&odd, "", &mut SequenceIds::default());
        assert_eq!(out, odd.iter().flat_map(|packet| field(1, packet)).collect::<Vec<u8>>());
    }

    #[test]
    fn sequences_of_two_traces_and_ours_have_different_ids() {
        let mut ids = SequenceIds::with(7);
        let packets = [number(10, 7), number(10, 3), number(10, 7), number(8, 1)];
        let mut all = Vec::new();
        for _ in 0..2 {
            let (out, _) = copied(&packets, "", &mut ids);
            let packets = Fields::of(&out).map(|field| field.unwrap().1.bytes().unwrap());
            all.push(packets.map(sequence_id).collect::<Vec<_>>());
        }
        for copied in &all {
            assert_eq!(copied[0], copied[2]);
        }
        let different: HashSet<u32> = all.concat().into_iter().chain([7]).collect();
        assert_eq!(different.len(), 7, "{all:?}");
        assert_eq!((all[0][1], all[0][3]), (3, 0));
    }

    #[test]
    fn a_trace_that_ends_early_is_copied_up_to_there() {
        let trace = [field(1, &number(8, 1)), vec![0x0a, 50, 1]].concat();
        let mut out = Vec::new();
        let copied = copy(&*trace, None, &mut SequenceIds::default(), &mut out).unwrap();
        assert_eq!((copied.packets, copied.truncated.is_some()), (1, true));
        assert_eq!(out, field(1, &number(8, 1)));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_are_too_much_for_it(trace: Vec<u8>) {
            let mapping = Mapping::parse("com.example.Feed -> a.b:\n").unwrap();
            let mut out = Vec::new();
            let _ = copy(&*trace, Some(&mapping), &mut SequenceIds::default(), &mut out);
        }
    }
}
