//! The system's part of a trace in Perfetto's form: events of the kernel, FrameTimeline, buffer events, samples, packages.

use super::messages::{
    BufferEvent, Callstack, DisplayFrame, FrameEnd, FrameTimelineEvent, FtraceEvent,
    FtraceEventBundle, GraphicsFrameEvent, InternedBytes, InternedData, InternedName, Mapping,
    PackageInfo, PackagesList, PerfSample, StackFrame, SurfaceFrame, TracePacket,
};
use super::{Writer, ftrace};
use crate::kernel_text;
use std::collections::HashMap;
use std::io::{self, Write};
use tracetee_trace::{KernelEvent, NO_PARENT, NameId, TimelineFrame, UNFINISHED};

/// Events of a packet.
const MAX_EVENTS: usize = 512;

impl<W: Write> Writer<'_, W> {
    /// Writes all of it.
    pub(super) fn system(&mut self) -> io::Result<()> {
        self.packages()?;
        self.kernel()?;
        self.frames()?;
        self.buffers()?;
        self.samples()
    }

    fn text(&self, id: NameId) -> Option<String> {
        (id != NameId::NONE).then(|| self.trace.names.text(id).to_owned())
    }

    fn packages(&mut self) -> io::Result<()> {
        let packages = self.trace.packages.iter();
        let packages: Vec<PackageInfo> = packages
            .map(|package| PackageInfo {
                name: self.text(package.name),
                uid: Some(package.uid),
                debuggable: Some(package.is_debuggable),
                profileable_from_shell: Some(package.is_profileable),
                version_code: Some(package.version),
            })
            .collect();
        if packages.is_empty() {
            return Ok(());
        }
        let packages_list = Some(PackagesList { packages });
        self.packet(TracePacket { packages_list, ..TracePacket::default() })
    }

    /// Events in the order of time: a packet has consecutive events of one processor. Readers take events of one time and
    /// several processors in any order: those of a text, whose times are in µs, keep its order by ns.
    fn kernel(&mut self) -> io::Result<()> {
        let trace = self.trace;
        let mut events: Vec<FtraceEvent> = Vec::new();
        let (mut of_cpu, mut last_ns) = (0, 0);
        for event in &trace.kernel {
            let mut event = *event;
            if trace.event_text(&event).is_some() {
                event.at_ns = event.at_ns.max(last_ns + u64::from(event.cpu != of_cpu));
                last_ns = event.at_ns;
            }
            if event.cpu != of_cpu || events.len() >= MAX_EVENTS {
                self.bundle(of_cpu, std::mem::take(&mut events))?;
                of_cpu = event.cpu;
            }
            events.push(self.kernel_event(&event));
        }
        self.bundle(of_cpu, events)
    }

    fn bundle(&mut self, cpu: u16, event: Vec<FtraceEvent>) -> io::Result<()> {
        if event.is_empty() {
            return Ok(());
        }
        let bundle = FtraceEventBundle { cpu: Some(cpu.into()), event };
        self.packet(TracePacket { ftrace_events: Some(bundle), ..TracePacket::default() })
    }

    /// Returns the id of a kernel function's name, which is interned, or a function's address.
    fn symbol(&mut self, caller: &str) -> u64 {
        let address = caller.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16));
        if let Some(Ok(address)) = address {
            return address;
        }
        let next = self.symbols.len() as u64 + 1;
        let iid = *self.symbols.entry(caller.to_owned()).or_insert(next);
        if iid == next {
            let name = Some(caller.to_owned());
            self.interned.kernel_symbols.push(InternedName { iid: Some(iid), name });
        }
        iid
    }

    /// Returns an event of the kernel, by the text that ftrace prints for it.
    fn kernel_event(&mut self, event: &KernelEvent) -> FtraceEvent {
        let trace = self.trace;
        let (name, text) = match trace.event_text(event) {
            Some(text) => (text.event, String::from_utf8_lossy(text.payload).into_owned()),
            None => {
                let name = |id| trace.names.text(id);
                (event.kind.event(), kernel_text::payload(event, name))
            }
        };
        ftrace::of_text(event, name, text, |caller| self.symbol(caller))
    }

    /// Begins and ends of frames, by time.
    fn frames(&mut self) -> io::Result<()> {
        let trace = self.trace;
        let mut events = Vec::with_capacity(2 * trace.frames.len());
        for (cookie, frame) in (1_i64..).zip(&trace.frames) {
            events.push((frame.start_ns, true, cookie, frame));
            if frame.end_ns != UNFINISHED {
                events.push((frame.end_ns, false, cookie, frame));
            }
        }
        events.sort_by_key(|&(at_ns, ..)| at_ns);
        for (at_ns, begins, cookie, frame) in events {
            let event = if begins { self.frame_start(frame, cookie) } else { frame_end(cookie) };
            self.packet(TracePacket {
                timestamp: Some(at_ns),
                frame_timeline_event: Some(event),
                ..TracePacket::default()
            })?;
        }
        Ok(())
    }

    fn frame_start(&self, frame: &TimelineFrame, cookie: i64) -> FrameTimelineEvent {
        let mut event = FrameTimelineEvent::default();
        let (cookie, token, pid) = (Some(cookie), Some(frame.token), Some(frame.pid.cast_signed()));
        let display_frame_token = Some(frame.display_token);
        let layer_name = self.text(frame.layer);
        let actual = frame.actual;
        let present_type = actual.map(|actual| actual.present.into());
        let on_time_finish = actual.map(|actual| actual.on_time);
        let gpu_composition = actual.map(|actual| actual.gpu);
        let jank_type = actual.map(|actual| actual.jank);
        let prediction_type = actual.map(|actual| actual.prediction.into());
        // Perfetto infers a severity that is missing.
        let severity = actual.map_or(0, |actual| actual.severity);
        let jank_severity_type = (severity != 0).then_some(severity.into());
        if frame.is_display {
            let start = match actual {
                Some(_) => &mut event.actual_display_frame_start,
                None => &mut event.expected_display_frame_start,
            };
            *start = Some(DisplayFrame {
                cookie,
                token,
                pid,
                present_type,
                on_time_finish,
                gpu_composition,
                jank_type,
                prediction_type,
                jank_severity_type,
            });
        } else {
            let start = match actual {
                Some(_) => &mut event.actual_surface_frame_start,
                None => &mut event.expected_surface_frame_start,
            };
            *start = Some(SurfaceFrame {
                cookie,
                token,
                display_frame_token,
                pid,
                layer_name,
                present_type,
                on_time_finish,
                gpu_composition,
                jank_type,
                prediction_type,
                is_buffer: actual.map(|actual| actual.is_buffer),
                jank_severity_type,
            });
        }
        event
    }

    fn buffers(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for event in &trace.buffers {
            let buffer_event = Some(BufferEvent {
                frame_number: Some(event.frame),
                r#type: Some(event.kind.into()),
                layer_name: self.text(event.layer),
                duration_ns: (event.dur_ns != 0).then_some(event.dur_ns),
                buffer_id: Some(event.buffer),
            });
            self.packet(TracePacket {
                timestamp: Some(event.at_ns),
                graphics_frame_event: Some(GraphicsFrameEvent { buffer_event }),
                ..TracePacket::default()
            })?;
        }
        Ok(())
    }

    /// Samples as perf's: every version of Perfetto reads those.
    fn samples(&mut self) -> io::Result<()> {
        let trace = self.trace;
        let mut stacks = StackTables::default();
        for sample in &trace.samples {
            let callstack_iid = (sample.stack != NO_PARENT).then(|| u64::from(sample.stack) + 1);
            if sample.stack != NO_PARENT {
                stacks.intern(self, sample.stack);
            }
            let perf_sample = Some(PerfSample {
                cpu: Some(sample.cpu),
                pid: Some(sample.pid),
                tid: Some(sample.tid),
                callstack_iid,
                timebase_count: Some(sample.weight),
            });
            let interned = std::mem::take(&mut stacks.new);
            let interned_data = (interned != InternedData::default()).then_some(interned);
            self.packet(TracePacket {
                timestamp: Some(sample.at_ns),
                perf_sample,
                interned_data,
                ..TracePacket::default()
            })?;
        }
        Ok(())
    }
}

fn frame_end(cookie: i64) -> FrameTimelineEvent {
    let frame_end = Some(FrameEnd { cookie: Some(cookie) });
    FrameTimelineEvent { frame_end, ..FrameTimelineEvent::default() }
}

/// Interned callstacks, and what of them is not written yet.
#[derive(Default)]
struct StackTables {
    new: InternedData,
    stacks: HashMap<u32, ()>,
    functions: HashMap<NameId, ()>,
    mappings: HashMap<(NameId, NameId), u64>,
    frames: HashMap<tracetee_trace::StackFrame, u64>,
}

impl StackTables {
    fn intern<W: Write>(&mut self, writer: &Writer<'_, W>, stack: u32) {
        if self.stacks.insert(stack, ()).is_some() {
            return;
        }
        let trace = writer.trace;
        let mut frame_ids = Vec::new();
        for frame in trace.stacks.frames(stack) {
            let next = self.frames.len() as u64 + 1;
            let iid = *self.frames.entry(frame).or_insert(next);
            frame_ids.push(iid);
            if iid != next {
                continue;
            }
            let function = u64::from(frame.function.number()) + 1;
            if self.functions.insert(frame.function, ()).is_none() {
                let name = trace.names.text(frame.function).to_owned();
                let name = InternedName { iid: Some(function), name: Some(name) };
                self.new.function_names.push(name);
            }
            let mapping = self.mapping(writer, frame.mapping, frame.build_id);
            self.new.frames.push(StackFrame {
                iid: Some(iid),
                function_name_id: Some(function),
                mapping_id: Some(mapping),
                rel_pc: Some(frame.rel_pc),
            });
        }
        frame_ids.reverse();
        self.new.callstacks.push(Callstack { iid: Some(u64::from(stack) + 1), frame_ids });
    }

    fn mapping<W: Write>(&mut self, writer: &Writer<'_, W>, path: NameId, build: NameId) -> u64 {
        let next = self.mappings.len() as u64 + 1;
        let iid = *self.mappings.entry((path, build)).or_insert(next);
        if iid != next {
            return iid;
        }
        let names = &writer.trace.names;
        let mut path_string_ids = Vec::new();
        if path != NameId::NONE {
            let name = names.text(path).trim_start_matches('/').to_owned();
            self.new.mapping_paths.push(InternedName { iid: Some(iid), name: Some(name) });
            path_string_ids.push(iid);
        }
        let bytes = hex::decode(names.text(build)).unwrap_or_default();
        let build_id = (!bytes.is_empty()).then_some(iid);
        if build_id.is_some() {
            self.new.build_ids.push(InternedBytes { iid: Some(iid), str: Some(bytes) });
        }
        self.new.mappings.push(Mapping { iid: Some(iid), build_id, path_string_ids });
        iid
    }
}
