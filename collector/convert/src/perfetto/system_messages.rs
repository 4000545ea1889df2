//! Perfetto's messages of the system's part: frames, samples, packages, events of the kernel beside the scheduler's.

use prost::Message;

/// `sched_blocked_reason`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct BlockedReason {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) caller: Option<u64>,
    #[prost(uint32, optional, tag = "3")]
    pub(super) io_wait: Option<u32>,
}

/// `task_newtask`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TaskNewtask {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(string, optional, tag = "2")]
    pub(super) comm: Option<String>,
    #[prost(uint64, optional, tag = "3")]
    pub(super) clone_flags: Option<u64>,
    #[prost(int32, optional, tag = "4")]
    pub(super) oom_score_adj: Option<i32>,
}

/// `task_rename`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TaskRename {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(string, optional, tag = "2")]
    pub(super) oldcomm: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(super) newcomm: Option<String>,
    #[prost(int32, optional, tag = "4")]
    pub(super) oom_score_adj: Option<i32>,
}

/// A frame begins or ends; one of the fields is set.
#[derive(Clone, PartialEq, Message)]
pub(super) struct FrameTimelineEvent {
    #[prost(message, optional, tag = "1")]
    pub(super) expected_display_frame_start: Option<ExpectedDisplay>,
    #[prost(message, optional, tag = "2")]
    pub(super) actual_display_frame_start: Option<ActualDisplay>,
    #[prost(message, optional, tag = "3")]
    pub(super) expected_surface_frame_start: Option<ExpectedSurface>,
    #[prost(message, optional, tag = "4")]
    pub(super) actual_surface_frame_start: Option<ActualSurface>,
    #[prost(message, optional, tag = "5")]
    pub(super) frame_end: Option<FrameEnd>,
}

/// Expected frame of the display.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ExpectedDisplay {
    #[prost(int64, optional, tag = "1")]
    pub(super) cookie: Option<i64>,
    #[prost(int64, optional, tag = "2")]
    pub(super) token: Option<i64>,
    #[prost(int32, optional, tag = "3")]
    pub(super) pid: Option<i32>,
}

/// Actual frame of the display.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ActualDisplay {
    #[prost(int64, optional, tag = "1")]
    pub(super) cookie: Option<i64>,
    #[prost(int64, optional, tag = "2")]
    pub(super) token: Option<i64>,
    #[prost(int32, optional, tag = "3")]
    pub(super) pid: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub(super) present_type: Option<i32>,
    #[prost(bool, optional, tag = "5")]
    pub(super) on_time_finish: Option<bool>,
    #[prost(bool, optional, tag = "6")]
    pub(super) gpu_composition: Option<bool>,
    #[prost(int32, optional, tag = "7")]
    pub(super) jank_type: Option<i32>,
    #[prost(int32, optional, tag = "8")]
    pub(super) prediction_type: Option<i32>,
    #[prost(int32, optional, tag = "9")]
    pub(super) jank_severity_type: Option<i32>,
}

/// Expected frame of a surface.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ExpectedSurface {
    #[prost(int64, optional, tag = "1")]
    pub(super) cookie: Option<i64>,
    #[prost(int64, optional, tag = "2")]
    pub(super) token: Option<i64>,
    #[prost(int64, optional, tag = "3")]
    pub(super) display_frame_token: Option<i64>,
    #[prost(int32, optional, tag = "4")]
    pub(super) pid: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub(super) layer_name: Option<String>,
}

/// Actual frame of a surface.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ActualSurface {
    #[prost(int64, optional, tag = "1")]
    pub(super) cookie: Option<i64>,
    #[prost(int64, optional, tag = "2")]
    pub(super) token: Option<i64>,
    #[prost(int64, optional, tag = "3")]
    pub(super) display_frame_token: Option<i64>,
    #[prost(int32, optional, tag = "4")]
    pub(super) pid: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub(super) layer_name: Option<String>,
    #[prost(int32, optional, tag = "6")]
    pub(super) present_type: Option<i32>,
    #[prost(bool, optional, tag = "7")]
    pub(super) on_time_finish: Option<bool>,
    #[prost(bool, optional, tag = "8")]
    pub(super) gpu_composition: Option<bool>,
    #[prost(int32, optional, tag = "9")]
    pub(super) jank_type: Option<i32>,
    #[prost(int32, optional, tag = "10")]
    pub(super) prediction_type: Option<i32>,
    #[prost(bool, optional, tag = "11")]
    pub(super) is_buffer: Option<bool>,
    #[prost(int32, optional, tag = "12")]
    pub(super) jank_severity_type: Option<i32>,
}

/// The frame with this cookie ends.
#[derive(Clone, PartialEq, Message)]
pub(super) struct FrameEnd {
    #[prost(int64, optional, tag = "1")]
    pub(super) cookie: Option<i64>,
}

/// An event of a graphics buffer.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GraphicsFrameEvent {
    #[prost(message, optional, tag = "1")]
    pub(super) buffer_event: Option<BufferEvent>,
}

/// Its content.
#[derive(Clone, PartialEq, Message)]
pub(super) struct BufferEvent {
    #[prost(uint32, optional, tag = "1")]
    pub(super) frame_number: Option<u32>,
    #[prost(int32, optional, tag = "2")]
    pub(super) kind: Option<i32>,
    #[prost(string, optional, tag = "3")]
    pub(super) layer_name: Option<String>,
    #[prost(uint64, optional, tag = "4")]
    pub(super) duration_ns: Option<u64>,
    #[prost(uint32, optional, tag = "5")]
    pub(super) buffer_id: Option<u32>,
}

/// Installed packages.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PackagesList {
    #[prost(message, repeated, tag = "1")]
    pub(super) packages: Vec<PackageInfo>,
}

/// A package.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PackageInfo {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) uid: Option<u64>,
    #[prost(bool, optional, tag = "3")]
    pub(super) debuggable: Option<bool>,
    #[prost(int64, optional, tag = "5")]
    pub(super) version_code: Option<i64>,
}

/// A sample of a callstack.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PerfSample {
    #[prost(uint32, optional, tag = "1")]
    pub(super) cpu: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) pid: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(super) tid: Option<u32>,
    #[prost(uint64, optional, tag = "4")]
    pub(super) callstack_iid: Option<u64>,
    #[prost(uint64, optional, tag = "6")]
    pub(super) timebase_count: Option<u64>,
}

/// Interned bytes.
#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedBytes {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) bytes: Option<Vec<u8>>,
}

/// A mapped file.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Mapping {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) build_id: Option<u64>,
    #[prost(uint64, repeated, packed = "false", tag = "7")]
    pub(super) path_string_ids: Vec<u64>,
}

/// A frame of a callstack.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StackFrame {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) function_name_id: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub(super) mapping_id: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub(super) rel_pc: Option<u64>,
}

/// A callstack, the outermost frame first.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Callstack {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub(super) frame_ids: Vec<u64>,
}
