//! FrameTimeline and events of graphics buffers.

use super::Reader;
use super::clock::Clock;
use super::fields::{
    actual_display, actual_surface, buffer_event, frame_end, frame_timeline, graphics_frame_event,
};
use super::wire::{Fields, Malformed, bytes_of, low, numbers_of, values_of};
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

/// Maps the field of a surface's frame to that of a display's frame, which has neither a second token nor a layer; 0 if
/// there is none.
const fn field_of_surface(field: u32) -> u32 {
    match field {
        actual_display::cookie => actual_surface::cookie,
        actual_display::token => actual_surface::token,
        actual_display::pid => actual_surface::pid,
        actual_display::present_type => actual_surface::present_type,
        actual_display::on_time_finish => actual_surface::on_time_finish,
        actual_display::gpu_composition => actual_surface::gpu_composition,
        actual_display::jank_type => actual_surface::jank_type,
        actual_display::prediction_type => actual_surface::prediction_type,
        actual_display::jank_severity_type => actual_surface::jank_severity_type,
        _ => 0,
    }
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
                frame_timeline::expected_display_frame_start
                    ..=frame_timeline::actual_surface_frame_start => {
                    self.frame_start(number, at_ns, value.bytes()?)?
                }
                frame_timeline::frame_end => {
                    let [cookie] = values_of(value.bytes()?, [frame_end::cookie])?;
                    let cookie = cookie.ok_or("a frame's end has no cookie")?.int()?;
                    FrameEvent { at_ns, cookie, begins: None }
                }
                _ => {
                    self.unread.field("frame timeline", number);
                    continue;
                }
            };
            self.frames.push((clock, event));
        }
        Ok(())
    }

    /// `kind`: the field of the event.
    fn frame_start(
        &mut self,
        kind: u32,
        at_ns: u64,
        message: &[u8],
    ) -> Result<FrameEvent, Malformed> {
        let is_display = matches!(
            kind,
            frame_timeline::expected_display_frame_start
                | frame_timeline::actual_display_frame_start
        );
        let is_actual = matches!(
            kind,
            frame_timeline::actual_display_frame_start | frame_timeline::actual_surface_frame_start
        );
        let (mut cookie, mut token, mut display, mut pid) = (None, None, None, None);
        let mut layer = NameId::NONE;
        let mut actual = ActualFrame::default();
        let byte = |number: u64| u8::try_from(number).unwrap_or(0);
        for field in Fields::of(message) {
            let (number, value) = field?;
            match if is_display { field_of_surface(number) } else { number } {
                actual_surface::cookie => cookie = Some(value.int()?),
                actual_surface::token => token = Some(value.int()?),
                actual_surface::display_frame_token => display = Some(value.int()?),
                actual_surface::pid => pid = Some(value.u32()?),
                actual_surface::layer_name => layer = self.builder.trace.names.id(value.bytes()?),
                actual_surface::present_type => actual.present = byte(value.number()?),
                actual_surface::on_time_finish => actual.on_time = value.bool()?,
                actual_surface::gpu_composition => actual.gpu = value.bool()?,
                actual_surface::jank_type => actual.jank = value.i32()?,
                actual_surface::prediction_type => actual.prediction = byte(value.number()?),
                actual_surface::is_buffer => actual.is_buffer = value.bool()?,
                actual_surface::jank_severity_type => actual.severity = byte(value.number()?),
                _ => self.unread.field("frame timeline", number),
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
            let (graphics_frame_event::buffer_event, value) = field? else { continue };
            let message = value.bytes()?;
            let fields =
                [buffer_event::frame_number, buffer_event::r#type, buffer_event::duration_ns];
            let [frame, kind, dur_ns] = numbers_of(message, fields)?;
            let [layer] = bytes_of(message, [buffer_event::layer_name])?;
            let [buffer] = values_of(message, [buffer_event::buffer_id])?;
            let layer = self.builder.trace.names.id(layer);
            let Some(buffer) = buffer else {
                self.unread.event("packets of graphics events without a buffer");
                continue;
            };
            let (kind, buffer) = (u8::try_from(kind).unwrap_or(u8::MAX), buffer.u32()?);
            let event = BufferEvent { at_ns, dur_ns, kind, frame: low(frame), layer, buffer };
            self.buffers.push((clock, event));
        }
        Ok(())
    }
}

/// Pairs begins and ends, which are sorted by time. Returns the frames, the number of ends without a begin, and the number
/// of frames that begin while another one with their cookie is open.
pub(super) fn paired(events: &[FrameEvent]) -> (Vec<TimelineFrame>, u64, u64) {
    let mut frames: Vec<TimelineFrame> = Vec::new();
    let mut open: HashMap<i64, Option<usize>> = HashMap::new();
    // The expectation of a token is the same for all surfaces of a process; it is kept once.
    let mut expected: HashSet<(u32, i64)> = HashSet::new();
    let (mut unpaired, mut moved) = (0, 0);
    for event in events {
        match event.begins {
            Some(begins) => {
                let is_known =
                    begins.actual.is_none() && !expected.insert((begins.pid, begins.token));
                let last = open.insert(event.cookie, (!is_known).then_some(frames.len()));
                if !is_known {
                    moved += u64::from(last.is_some());
                    frames.push(TimelineFrame { start_ns: event.at_ns, ..begins });
                }
            }
            None => match open.remove(&event.cookie) {
                Some(index) => {
                    if let Some(frame) = index.and_then(|index| frames.get_mut(index)) {
                        frame.end_ns = event.at_ns;
                    }
                }
                None => unpaired += 1,
            },
        }
    }
    (frames, unpaired, moved)
}
