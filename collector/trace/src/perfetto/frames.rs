//! FrameTimeline and events of graphics buffers.

use super::Reader;
use super::clock::Clock;
use super::unread::Message;
use super::wire::{Fields, Malformed};
use crate::frames::{ActualFrame, BufferEvent, TimelineFrame};
use crate::model::UNFINISHED;
use crate::names::NameId;
use std::collections::{HashMap, HashSet};

/// A frame begins, or the one with this cookie ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameEvent {
    pub(super) at_ns: u64,
    cookie: i64,
    begins: Option<TimelineFrame>,
}

impl Reader {
    pub(super) fn frame_timeline(
        &mut self,
        time: Option<(Clock, u64)>,
        message: &[u8],
    ) -> Result<(), Malformed> {
        let (clock, at_ns) = time.ok_or("a frame event has no time")?;
        for field in Fields::of(message) {
            let (number, value) = field?;
            let event = match number {
                1..=4 => self.frame_start(number, at_ns, value.bytes()?)?,
                5 => {
                    let mut cookie = None;
                    for field in Fields::of(value.bytes()?) {
                        if let (1, value) = field? {
                            cookie = Some(value.int()?);
                        }
                    }
                    let cookie = cookie.ok_or("a frame's end has no cookie")?;
                    FrameEvent { at_ns, cookie, begins: None }
                }
                _ => {
                    self.unread.field(Message::FrameTimeline, number);
                    continue;
                }
            };
            self.frames.push((clock, event));
        }
        Ok(())
    }

    /// `kind`: the field of the event, 1 expected and 2 actual display frame, 3 and 4 those of a surface.
    fn frame_start(
        &mut self,
        kind: u32,
        at_ns: u64,
        message: &[u8],
    ) -> Result<FrameEvent, Malformed> {
        let (is_display, is_actual) = (kind <= 2, kind.is_multiple_of(2));
        let (mut cookie, mut token, mut display, mut pid) = (None, None, None, None);
        let mut layer = NameId::NONE;
        let mut actual = ActualFrame::default();
        let byte = |number: u64| u8::try_from(number).unwrap_or(0);
        for field in Fields::of(message) {
            let (number, value) = field?;
            // A display frame has neither a second token nor a layer: its fields follow two numbers earlier.
            let number = if is_display && number >= 3 {
                if number == 3 { 4 } else { number + 2 }
            } else {
                number
            };
            match number {
                1 => cookie = Some(value.int()?),
                2 => token = Some(value.int()?),
                3 => display = Some(value.int()?),
                4 => pid = Some(value.u32()?),
                5 => layer = self.builder.trace.names.id(value.bytes()?),
                6 => actual.present = byte(value.number()?),
                7 => actual.on_time = value.bool()?,
                8 => actual.gpu = value.bool()?,
                9 => actual.jank = value.i32()?,
                10 => actual.prediction = byte(value.number()?),
                11 if is_display => actual.severity = byte(value.number()?),
                11 => actual.is_buffer = value.bool()?,
                12 if !is_display => actual.severity = byte(value.number()?),
                _ => self.unread.field(Message::FrameTimeline, number),
            }
        }
        let display_token = if is_display { token } else { display };
        let (Some(cookie), Some(token), Some(display_token), Some(pid)) =
            (cookie, token, display_token, pid)
        else {
            return Err("a frame lacks its cookie, token or process");
        };
        let begins = Some(TimelineFrame {
            start_ns: at_ns,
            end_ns: UNFINISHED,
            pid,
            layer,
            token,
            display_token,
            is_display,
            actual: is_actual.then_some(actual),
        });
        Ok(FrameEvent { at_ns, cookie, begins })
    }

    pub(super) fn graphics_frame(
        &mut self,
        time: Option<(Clock, u64)>,
        message: &[u8],
    ) -> Result<(), Malformed> {
        let (clock, at_ns) = time.ok_or("a buffer event has no time")?;
        for field in Fields::of(message) {
            let (1, value) = field? else { continue };
            let mut event =
                BufferEvent { at_ns, dur_ns: 0, kind: 0, frame: 0, layer: NameId::NONE, buffer: 0 };
            for field in Fields::of(value.bytes()?) {
                match field? {
                    (1, value) => event.frame = value.u32()?,
                    (2, value) => event.kind = u8::try_from(value.number()?).unwrap_or(0),
                    (3, value) => event.layer = self.builder.trace.names.id(value.bytes()?),
                    (4, value) => event.dur_ns = value.number()?,
                    (5, value) => event.buffer = value.u32()?,
                    _ => {}
                }
            }
            self.buffers.push((clock, event));
        }
        Ok(())
    }
}

/// Pairs begins and ends, which are sorted by time. Returns the frames, and the number of ends without a begin.
pub(super) fn paired(events: &[FrameEvent]) -> (Vec<TimelineFrame>, u64) {
    let mut frames: Vec<TimelineFrame> = Vec::new();
    let mut open: HashMap<i64, Option<usize>> = HashMap::new();
    // The expectation of a token is the same for all surfaces of a process; it is kept once.
    let mut expected: HashSet<(u32, i64)> = HashSet::new();
    let mut unpaired = 0;
    for event in events {
        match event.begins {
            Some(begins) => {
                let is_known =
                    begins.actual.is_none() && !expected.insert((begins.pid, begins.token));
                open.insert(event.cookie, (!is_known).then_some(frames.len()));
                if !is_known {
                    frames.push(TimelineFrame { start_ns: event.at_ns, ..begins });
                }
            }
            None => match open.remove(&event.cookie) {
                Some(place) => {
                    if let Some(frame) = place.and_then(|place| frames.get_mut(place)) {
                        frame.end_ns = event.at_ns;
                    }
                }
                None => unpaired += 1,
            },
        }
    }
    (frames, unpaired)
}
