//! The messages of Perfetto's `protos/perfetto/trace` that are written or looked at here, by their field
//! numbers.

use super::system_messages::{
    BlockedReason, Callstack, FrameTimelineEvent, GraphicsFrameEvent, InternedBytes, Mapping,
    PackagesList, PerfSample, StackFrame, TaskNewtask, TaskRename,
};
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacket {
    #[prost(message, optional, tag = "1")]
    pub(super) ftrace_events: Option<FtraceEventBundle>,
    #[prost(message, optional, tag = "6")]
    pub(super) clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub(super) trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub(super) track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    pub(super) interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    pub(super) sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "47")]
    pub(super) packages_list: Option<PackagesList>,
    #[prost(message, optional, tag = "57")]
    pub(super) graphics_frame_event: Option<GraphicsFrameEvent>,
    #[prost(message, optional, tag = "59")]
    pub(super) trace_packet_defaults: Option<TracePacketDefaults>,
    #[prost(message, optional, tag = "60")]
    pub(super) track_descriptor: Option<TrackDescriptor>,
    #[prost(message, optional, tag = "66")]
    pub(super) perf_sample: Option<PerfSample>,
    #[prost(message, optional, tag = "76")]
    pub(super) frame_timeline_event: Option<FrameTimelineEvent>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacketDefaults {
    #[prost(uint32, optional, tag = "58")]
    pub(super) timestamp_clock_id: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(super) clocks: Vec<Clock>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) primary_trace_clock: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Clock {
    #[prost(uint32, optional, tag = "1")]
    pub(super) clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "1")]
    pub(super) event_categories: Vec<InternedName>,
    #[prost(message, repeated, tag = "2")]
    pub(super) event_names: Vec<InternedName>,
    #[prost(message, repeated, tag = "5")]
    pub(super) function_names: Vec<InternedName>,
    #[prost(message, repeated, tag = "6")]
    pub(super) frames: Vec<StackFrame>,
    #[prost(message, repeated, tag = "7")]
    pub(super) callstacks: Vec<Callstack>,
    #[prost(message, repeated, tag = "16")]
    pub(super) build_ids: Vec<InternedBytes>,
    #[prost(message, repeated, tag = "17")]
    pub(super) mapping_paths: Vec<InternedName>,
    #[prost(message, repeated, tag = "19")]
    pub(super) mappings: Vec<Mapping>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedName {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub(super) uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub(super) process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    pub(super) thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub(super) counter: Option<CounterDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub(super) process_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub(super) tid: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub(super) thread_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CounterDescriptor {
    #[prost(string, optional, tag = "6")]
    pub(super) unit_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    pub(super) category_iids: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    pub(super) debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    pub(super) kind: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    pub(super) name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub(super) track_uuid: Option<u64>,
    #[prost(int64, optional, tag = "30")]
    pub(super) counter_value: Option<i64>,
    #[prost(double, optional, tag = "44")]
    pub(super) double_counter_value: Option<f64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(super) flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub(super) terminating_flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DebugAnnotation {
    #[prost(string, optional, tag = "9")]
    pub(super) legacy_json_value: Option<String>,
    #[prost(string, optional, tag = "10")]
    pub(super) name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FtraceEventBundle {
    #[prost(uint32, optional, tag = "1")]
    pub(super) cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    pub(super) event: Vec<FtraceEvent>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FtraceEvent {
    #[prost(uint64, optional, tag = "1")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) pid: Option<u32>,
    #[prost(message, optional, tag = "4")]
    pub(super) sched_switch: Option<SchedSwitch>,
    #[prost(message, optional, tag = "11")]
    pub(super) cpu_frequency: Option<CpuState>,
    #[prost(message, optional, tag = "12")]
    pub(super) cpu_frequency_limits: Option<CpuFrequencyLimits>,
    #[prost(message, optional, tag = "13")]
    pub(super) cpu_idle: Option<CpuState>,
    #[prost(message, optional, tag = "17")]
    pub(super) sched_wakeup: Option<SchedWakeup>,
    #[prost(message, optional, tag = "18")]
    pub(super) sched_blocked_reason: Option<BlockedReason>,
    #[prost(message, optional, tag = "20")]
    pub(super) sched_waking: Option<SchedWakeup>,
    #[prost(message, optional, tag = "50")]
    pub(super) binder_transaction: Option<BinderTransaction>,
    #[prost(message, optional, tag = "51")]
    pub(super) binder_transaction_received: Option<BinderTransactionReceived>,
    #[prost(message, optional, tag = "114")]
    pub(super) sched_wakeup_new: Option<SchedWakeup>,
    #[prost(message, optional, tag = "235")]
    pub(super) task_newtask: Option<TaskNewtask>,
    #[prost(message, optional, tag = "236")]
    pub(super) task_rename: Option<TaskRename>,
    #[prost(message, optional, tag = "327")]
    pub(super) generic: Option<GenericEvent>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SchedSwitch {
    #[prost(string, optional, tag = "1")]
    pub(super) prev_comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub(super) prev_pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) prev_prio: Option<i32>,
    #[prost(int64, optional, tag = "4")]
    pub(super) prev_state: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub(super) next_comm: Option<String>,
    #[prost(int32, optional, tag = "6")]
    pub(super) next_pid: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    pub(super) next_prio: Option<i32>,
}

/// Also of `sched_waking` and `sched_wakeup_new`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SchedWakeup {
    #[prost(string, optional, tag = "1")]
    pub(super) comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub(super) pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) prio: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub(super) success: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub(super) target_cpu: Option<i32>,
}

/// Payload of `cpu_frequency` and `cpu_idle`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CpuState {
    #[prost(uint32, optional, tag = "1")]
    pub(super) state: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) cpu_id: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CpuFrequencyLimits {
    #[prost(uint32, optional, tag = "1")]
    pub(super) min_freq: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) max_freq: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(super) cpu_id: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BinderTransaction {
    #[prost(int32, optional, tag = "1")]
    pub(super) debug_id: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub(super) target_node: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) to_proc: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub(super) to_thread: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub(super) reply: Option<i32>,
    #[prost(uint32, optional, tag = "6")]
    pub(super) code: Option<u32>,
    #[prost(uint32, optional, tag = "7")]
    pub(super) flags: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BinderTransactionReceived {
    #[prost(int32, optional, tag = "1")]
    pub(super) debug_id: Option<i32>,
}

/// An event of any kind.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GenericEvent {
    #[prost(string, optional, tag = "1")]
    pub(super) event_name: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub(super) field: Vec<GenericField>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GenericField {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(super) str_value: Option<String>,
}
