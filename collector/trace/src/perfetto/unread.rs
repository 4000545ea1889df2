//! Counts what the reader leaves aside, by message and field.

use std::collections::BTreeMap;

/// A message whose fields are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Message {
    Packet,
    TrackEvent,
    LegacyEvent,
    TrackDescriptor,
    FtraceBundle,
    InternedData,
    PerfSample,
    StackSample,
    FrameTimeline,
    Defaults,
    Process,
    Thread,
}

/// Limit of different fields that are counted by number.
const MAX_FIELDS: usize = 1024;

/// Counts of fields, and of events that were left out for a reason.
#[derive(Debug, Default)]
pub(super) struct Unread {
    fields: BTreeMap<(Message, u32), u64>,
    others: u64,
    reasons: BTreeMap<&'static str, u64>,
}

impl Unread {
    /// Counts a field.
    pub(super) fn field(&mut self, message: Message, number: u32) {
        let count = self.fields.len();
        match self.fields.get_mut(&(message, number)) {
            Some(count) => *count += 1,
            None if count < MAX_FIELDS => {
                self.fields.insert((message, number), 1);
            }
            None => self.others += 1,
        }
    }

    /// Counts an event that is left out.
    pub(super) fn event(&mut self, why: &'static str) {
        *self.reasons.entry(why).or_default() += 1;
    }

    /// Returns all counts by the text that messages use.
    pub(super) fn into_counts(self) -> BTreeMap<String, u64> {
        let fields = self.fields.into_iter().map(|((message, number), count)| {
            let name = name(message, number);
            let name = if name.is_empty() { String::new() } else { format!(" ({name})") };
            (format!("{} field {number}{name}", label(message)), count)
        });
        let reasons = self.reasons.into_iter().map(|(why, count)| (why.to_owned(), count));
        let mut all: BTreeMap<String, u64> = fields.chain(reasons).collect();
        if self.others > 0 {
            all.insert("other fields".to_owned(), self.others);
        }
        all
    }
}

const fn label(message: Message) -> &'static str {
    match message {
        Message::Packet => "packet",
        Message::TrackEvent => "track event",
        Message::LegacyEvent => "legacy event",
        Message::TrackDescriptor => "track descriptor",
        Message::FtraceBundle => "ftrace bundle",
        Message::InternedData => "interned data",
        Message::PerfSample => "perf sample",
        Message::StackSample => "stack sample",
        Message::FrameTimeline => "frame timeline",
        Message::Defaults => "packet defaults",
        Message::Process => "process",
        Message::Thread => "thread",
    }
}

/// The field's name in Perfetto's protos; empty if it is not known.
const fn name(message: Message, number: u32) -> &'static str {
    match (message, number) {
        (Message::Packet, 4) => "inode_file_map",
        (Message::Packet, 5) => "chrome_events",
        (Message::Packet, 7) => "sys_stats",
        (Message::Packet, 9) => "process_stats",
        (Message::Packet, 37) => "profile_packet",
        (Message::Packet, 38) => "battery",
        (Message::Packet, 39) => "android_log",
        (Message::Packet, 40) => "power_rails",
        (Message::Packet, 46) => "trigger",
        (Message::Packet, 48) => "chrome_benchmark_metadata",
        (Message::Packet, 49) => "perfetto_metatrace",
        (Message::Packet, 51) => "chrome_metadata",
        (Message::Packet, 52) => "gpu_counter_event",
        (Message::Packet, 53) => "gpu_render_stage_event",
        (Message::Packet, 54) => "streaming_profile_packet",
        (Message::Packet, 56) => "heap_graph",
        (Message::Packet, 61) => "module_symbols",
        (Message::Packet, 62) => "vulkan_memory_event",
        (Message::Packet, 63) => "gpu_log",
        (Message::Packet, 64) => "deobfuscation_mapping",
        (Message::Packet, 65) => "vulkan_api_event",
        (Message::Packet, 67) => "cpu_info",
        (Message::Packet, 68) => "smaps_packet",
        (Message::Packet, 70) => "initial_display_state",
        (Message::Packet, 71) => "gpu_mem_total_event",
        (Message::Packet, 72) => "extension_descriptor",
        (Message::Packet, 73) => "memory_tracker_snapshot",
        (Message::Packet, 77) => "android_energy_estimation_breakdown",
        (Message::Packet, 78) => "ui_state",
        (Message::Packet, 82) => "translation_table",
        (Message::Packet, 84) => "statsd_atom",
        (Message::Packet, 86) => "android_system_property",
        (Message::Packet, 90) => "track_event_range_of_interest",
        (Message::Packet, 91) => "entity_state_residency",
        (Message::Packet, 95) => "etw_events",
        (Message::Packet, 96) => "protolog_message",
        (Message::Packet, 99) => "v8_js_code",
        (Message::Packet, 107) => "remote_clock_sync",
        (Message::Packet, 121) => "evdev_event",
        (Message::Process, 2) => "ppid",
        (Message::Process, 3) => "arguments of its command line",
        (Message::Process, 5) => "uid",
        (Message::Process, 7) => "process_start_from_boot",
        (Message::TrackEvent, 5) => "task_execution",
        (Message::TrackEvent, 21) => "log_message",
        (Message::TrackEvent, 33 | 34) => "source_location",
        (Message::TrackEvent, 52..=54) => "correlation_id",
        (Message::TrackEvent, 8 | 20) => "thread_instruction_count",
        _ => "",
    }
}
