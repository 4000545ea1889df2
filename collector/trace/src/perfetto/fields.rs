//! The fields of Perfetto's messages (`protos/perfetto/trace`), each named once with its number: for the reader here, and for
//! `tracetee_convert`, which makes messages to write of those with a type.

/// Passes the table to the macro of this name. A message is `NAME module { fields }`; `NAME` is the writer's name for it. A
/// field is `name = number`, and `: (how prost writes it) type` if it is written.
#[doc(hidden)]
#[macro_export]
macro_rules! perfetto_messages {
    ($table:ident) => {
        $table! {
            Trace trace {
                packet = 1,
            }
            TracePacket packet {
                ftrace_events = 1: (message, optional) Option<FtraceEventBundle>,
                process_tree = 2,
                trusted_uid = 3,
                clock_snapshot = 6: (message, optional) Option<ClockSnapshot>,
                timestamp = 8: (uint64, optional) Option<u64>,
                trusted_packet_sequence_id = 10: (uint32, optional) Option<u32>,
                track_event = 11: (message, optional) Option<TrackEvent>,
                interned_data = 12: (message, optional) Option<InternedData>,
                sequence_flags = 13: (uint32, optional) Option<u32>,
                trace_config = 33,
                ftrace_stats = 34,
                trace_stats = 35,
                synchronization_marker = 36,
                incremental_state_cleared = 41,
                previous_packet_dropped = 42,
                process_descriptor = 43,
                thread_descriptor = 44,
                system_info = 45,
                packages_list = 47: (message, optional) Option<PackagesList>,
                compressed_packets = 50,
                gpu_counter_event = 52,
                graphics_frame_event = 57: (message, optional) Option<GraphicsFrameEvent>,
                timestamp_clock_id = 58,
                trace_packet_defaults = 59: (message, optional) Option<TracePacketDefaults>,
                track_descriptor = 60: (message, optional) Option<TrackDescriptor>,
                perf_sample = 66: (message, optional) Option<PerfSample>,
                service_event = 69,
                frame_timeline_event = 76: (message, optional) Option<FrameTimelineEvent>,
                trusted_pid = 79,
                first_packet_on_sequence = 87,
                trace_uuid = 89,
                machine_id = 98,
                generic_kernel_task_rename_event = 120: (message, optional) Option<GenericRename>,
                zstd_compressed_packets = 133,
                stack_sample = 135,
            }
            TracePacketDefaults packet_defaults {
                track_event_defaults = 11,
                perf_sample_defaults = 12,
                timestamp_clock_id = 58: (uint32, optional) Option<u32>,
                stack_sample_defaults = 100,
            }
            ClockSnapshot clock_snapshot {
                clocks = 1: (message, repeated) Vec<Clock>,
                primary_trace_clock = 2: (uint32, optional) Option<u32>,
            }
            Clock clock {
                clock_id = 1: (uint32, optional) Option<u32>,
                timestamp = 2: (uint64, optional) Option<u64>,
                is_incremental = 3,
                unit_multiplier_ns = 4,
            }
            InternedData interned_data {
                event_categories = 1: (message, repeated) Vec<InternedName>,
                event_names = 2: (message, repeated) Vec<InternedName>,
                debug_annotation_names = 3,
                function_names = 5: (message, repeated) Vec<InternedName>,
                frames = 6: (message, repeated) Vec<StackFrame>,
                callstacks = 7: (message, repeated) Vec<Callstack>,
                build_ids = 16: (message, repeated) Vec<InternedBytes>,
                mapping_paths = 17: (message, repeated) Vec<InternedName>,
                mappings = 19: (message, repeated) Vec<Mapping>,
                kernel_symbols = 26: (message, repeated) Vec<InternedName>,
                debug_annotation_string_values = 29,
                stack_sample_task_contexts = 48,
                stack_sample_execution_contexts = 49,
            }
            /// All interned names and texts have these fields.
            InternedName interned {
                iid = 1: (uint64, optional) Option<u64>,
                name = 2: (string, optional) Option<String>,
            }
            /// An interned name whose bytes are not UTF-8.
            InternedBytes interned_bytes {
                iid = 1: (uint64, optional) Option<u64>,
                str = 2: (bytes = "vec", optional) Option<Vec<u8>>,
            }
            TrackDescriptor track_descriptor {
                uuid = 1: (uint64, optional) Option<u64>,
                name = 2: (string, optional) Option<String>,
                process = 3: (message, optional) Option<ProcessDescriptor>,
                thread = 4: (message, optional) Option<ThreadDescriptor>,
                parent_uuid = 5: (uint64, optional) Option<u64>,
                counter = 8: (message, optional) Option<CounterDescriptor>,
                static_name = 10,
                atrace_name = 13,
                state = 18,
            }
            ProcessDescriptor process_descriptor {
                pid = 1: (int32, optional) Option<i32>,
                cmdline = 2,
                process_name = 6: (string, optional) Option<String>,
            }
            ThreadDescriptor thread_descriptor {
                pid = 1: (int32, optional) Option<i32>,
                tid = 2: (int32, optional) Option<i32>,
                thread_name = 5: (string, optional) Option<String>,
                reference_timestamp_us = 6,
                reference_thread_time_us = 7,
            }
            CounterDescriptor counter_descriptor {
                r#type = 1,
                unit = 3,
                unit_multiplier = 4,
                is_incremental = 5,
                unit_name = 6: (string, optional) Option<String>,
            }
            TrackEvent track_event {
                timestamp_delta_us = 1,
                thread_time_delta_us = 2,
                category_iids = 3: (uint64, repeated, packed = "false") Vec<u64>,
                debug_annotations = 4: (message, repeated) Vec<DebugAnnotation>,
                legacy_event = 6,
                r#type = 9: (int32, optional) Option<i32>,
                name_iid = 10: (uint64, optional) Option<u64>,
                track_uuid = 11: (uint64, optional) Option<u64>,
                extra_counter_values = 12,
                timestamp_absolute_us = 16,
                thread_time_absolute_us = 17: (int64, optional) Option<i64>,
                categories = 22,
                name = 23,
                counter_value = 30: (int64, optional) Option<i64>,
                extra_counter_track_uuids = 31,
                flow_ids_old = 36,
                terminating_flow_ids_old = 42,
                double_counter_value = 44: (double, optional) Option<f64>,
                extra_double_counter_track_uuids = 45,
                extra_double_counter_values = 46,
                flow_ids = 47: (fixed64, repeated, packed = "false") Vec<u64>,
                terminating_flow_ids = 48: (fixed64, repeated, packed = "false") Vec<u64>,
                callstack = 55,
                callstack_iid = 56,
                callstack_weight = 57,
            }
            DebugAnnotation annotation {
                name_iid = 1,
                bool_value = 2: (bool, optional) Option<bool>,
                uint_value = 3: (uint64, optional) Option<u64>,
                int_value = 4: (int64, optional) Option<i64>,
                double_value = 5: (double, optional) Option<f64>,
                string_value = 6: (string, optional) Option<String>,
                pointer_value = 7,
                nested_value = 8: (message, optional) Option<NestedValue>,
                legacy_json_value = 9,
                name = 10: (string, optional) Option<String>,
                dict_entries = 11: (message, repeated) Vec<DebugAnnotation>,
                array_values = 12: (message, repeated) Vec<DebugAnnotation>,
                string_value_iid = 17,
            }
            NestedValue nested_value {
                nested_type = 1: (int32, optional) Option<i32>,
                dict_keys = 2,
                dict_values = 3,
                array_values = 4,
                int_value = 5,
                double_value = 6,
                bool_value = 7,
                string_value = 8,
            }
            LegacyEvent legacy_event {
                name_iid = 1,
                phase = 2,
                duration_us = 3,
                unscoped_id = 6,
                bind_id = 8,
                local_id = 10,
                global_id = 11,
                flow_direction = 13,
                instant_event_scope = 14,
                pid_override = 18,
                tid_override = 19,
            }
            ProcessTree process_tree {
                processes = 1,
                threads = 2,
            }
            Process process {
                pid = 1,
                cmdline = 3,
            }
            Thread thread {
                tid = 1,
                name = 2,
                tgid = 3,
            }
            FtraceEventBundle ftrace_bundle {
                cpu = 1: (uint32, optional) Option<u32>,
                event = 2: (message, repeated) Vec<FtraceEvent>,
                lost_events = 3,
                compact_sched = 4,
                ftrace_clock = 5,
                ftrace_timestamp = 6,
                boot_timestamp = 7,
                error = 8,
                last_read_event_timestamp = 9,
                previous_bundle_end_timestamp = 10,
            }
            /// The events of the scheduler in columns.
            CompactSched compact_sched {
                intern_table = 5,
            }
            FtraceEvent ftrace_event {
                timestamp = 1: (uint64, optional) Option<u64>,
                pid = 2: (uint32, optional) Option<u32>,
                print = 3,
                sched_switch = 4: (message, optional) Option<SchedSwitch>,
                common_flags = 5,
                cpu_frequency = 11: (message, optional) Option<CpuState>,
                cpu_frequency_limits = 12: (message, optional) Option<CpuFrequencyLimits>,
                cpu_idle = 13: (message, optional) Option<CpuState>,
                clock_enable = 14: (message, optional) Option<ClockSetRate>,
                clock_disable = 15: (message, optional) Option<ClockSetRate>,
                clock_set_rate = 16: (message, optional) Option<ClockSetRate>,
                sched_wakeup = 17: (message, optional) Option<SchedWakeup>,
                sched_blocked_reason = 18: (message, optional) Option<BlockedReason>,
                sched_waking = 20: (message, optional) Option<SchedWakeup>,
                binder_transaction = 50: (message, optional) Option<BinderTransaction>,
                binder_transaction_received = 51: (message, optional) Option<BinderTransactionReceived>,
                suspend_resume = 113,
                sched_wakeup_new = 114: (message, optional) Option<SchedWakeup>,
                task_newtask = 235: (message, optional) Option<TaskNewtask>,
                task_rename = 236: (message, optional) Option<TaskRename>,
                generic = 327: (message, optional) Option<GenericEvent>,
                binder_command = 485: (message, optional) Option<BinderCommand>,
                binder_return = 486: (message, optional) Option<BinderCommand>,
            }
            Print print {
                buf = 2,
            }
            SchedSwitch sched_switch {
                prev_comm = 1: (string, optional) Option<String>,
                prev_pid = 2: (int32, optional) Option<i32>,
                prev_prio = 3: (int32, optional) Option<i32>,
                prev_state = 4: (int64, optional) Option<i64>,
                next_comm = 5: (string, optional) Option<String>,
                next_pid = 6: (int32, optional) Option<i32>,
                next_prio = 7: (int32, optional) Option<i32>,
            }
            SuspendResume suspend_resume {
                action = 1,
                start = 3,
            }
            /// Also of `sched_waking` and `sched_wakeup_new`.
            SchedWakeup sched_wakeup {
                comm = 1: (string, optional) Option<String>,
                pid = 2: (int32, optional) Option<i32>,
                prio = 3: (int32, optional) Option<i32>,
                success = 4: (int32, optional) Option<i32>,
                target_cpu = 5: (int32, optional) Option<i32>,
            }
            /// Content of `cpu_frequency` and `cpu_idle`.
            CpuState cpu_state {
                state = 1: (uint32, optional) Option<u32>,
                cpu_id = 2: (uint32, optional) Option<u32>,
            }
            CpuFrequencyLimits cpu_frequency_limits {
                min_freq = 1: (uint32, optional) Option<u32>,
                max_freq = 2: (uint32, optional) Option<u32>,
                cpu_id = 3: (uint32, optional) Option<u32>,
            }
            /// Also of `clock_enable` and `clock_disable`.
            ClockSetRate clock_set_rate {
                name = 1: (string, optional) Option<String>,
                state = 2: (uint64, optional) Option<u64>,
                cpu_id = 3: (uint64, optional) Option<u64>,
            }
            BinderCommand binder_command {
                cmd = 1: (uint32, optional) Option<u32>,
            }
            BlockedReason sched_blocked_reason {
                pid = 1: (int32, optional) Option<i32>,
                caller = 2: (uint64, optional) Option<u64>,
                io_wait = 3: (uint32, optional) Option<u32>,
            }
            BinderTransaction binder_transaction {
                debug_id = 1: (int32, optional) Option<i32>,
                target_node = 2: (int32, optional) Option<i32>,
                to_proc = 3: (int32, optional) Option<i32>,
                to_thread = 4: (int32, optional) Option<i32>,
                reply = 5: (int32, optional) Option<i32>,
                code = 6: (uint32, optional) Option<u32>,
                flags = 7: (uint32, optional) Option<u32>,
            }
            BinderTransactionReceived binder_transaction_received {
                debug_id = 1: (int32, optional) Option<i32>,
            }
            TaskNewtask task_newtask {
                pid = 1: (int32, optional) Option<i32>,
                comm = 2: (string, optional) Option<String>,
                clone_flags = 3: (uint64, optional) Option<u64>,
                oom_score_adj = 4: (int32, optional) Option<i32>,
            }
            TaskRename task_rename {
                pid = 1: (int32, optional) Option<i32>,
                oldcomm = 2: (string, optional) Option<String>,
                newcomm = 3: (string, optional) Option<String>,
                oom_score_adj = 4: (int32, optional) Option<i32>,
            }
            /// A thread's name, without an event.
            GenericRename generic_rename {
                tid = 1: (int64, optional) Option<i64>,
                comm = 2: (string, optional) Option<String>,
            }
            /// An event of any kind.
            GenericEvent generic {
                event_name = 1: (string, optional) Option<String>,
                field = 2: (message, repeated) Vec<GenericField>,
            }
            GenericField generic_field {
                name = 1: (string, optional) Option<String>,
                str_value = 3: (string, optional) Option<String>,
            }
            /// A frame begins or ends; one of the fields is set.
            FrameTimelineEvent frame_timeline {
                expected_display_frame_start = 1: (message, optional) Option<DisplayFrame>,
                actual_display_frame_start = 2: (message, optional) Option<DisplayFrame>,
                expected_surface_frame_start = 3: (message, optional) Option<SurfaceFrame>,
                actual_surface_frame_start = 4: (message, optional) Option<SurfaceFrame>,
                frame_end = 5: (message, optional) Option<FrameEnd>,
            }
            /// An expected one has the first three fields.
            DisplayFrame actual_display {
                cookie = 1: (int64, optional) Option<i64>,
                token = 2: (int64, optional) Option<i64>,
                pid = 3: (int32, optional) Option<i32>,
                present_type = 4: (int32, optional) Option<i32>,
                on_time_finish = 5: (bool, optional) Option<bool>,
                gpu_composition = 6: (bool, optional) Option<bool>,
                jank_type = 7: (int32, optional) Option<i32>,
                prediction_type = 8: (int32, optional) Option<i32>,
                jank_severity_type = 9: (int32, optional) Option<i32>,
            }
            /// An expected one has the first five fields.
            SurfaceFrame actual_surface {
                cookie = 1: (int64, optional) Option<i64>,
                token = 2: (int64, optional) Option<i64>,
                display_frame_token = 3: (int64, optional) Option<i64>,
                pid = 4: (int32, optional) Option<i32>,
                layer_name = 5: (string, optional) Option<String>,
                present_type = 6: (int32, optional) Option<i32>,
                on_time_finish = 7: (bool, optional) Option<bool>,
                gpu_composition = 8: (bool, optional) Option<bool>,
                jank_type = 9: (int32, optional) Option<i32>,
                prediction_type = 10: (int32, optional) Option<i32>,
                is_buffer = 11: (bool, optional) Option<bool>,
                jank_severity_type = 12: (int32, optional) Option<i32>,
            }
            FrameEnd frame_end {
                cookie = 1: (int64, optional) Option<i64>,
            }
            /// An event of a graphics buffer.
            GraphicsFrameEvent graphics_frame_event {
                buffer_event = 1: (message, optional) Option<BufferEvent>,
            }
            BufferEvent buffer_event {
                frame_number = 1: (uint32, optional) Option<u32>,
                r#type = 2: (int32, optional) Option<i32>,
                layer_name = 3: (string, optional) Option<String>,
                duration_ns = 4: (uint64, optional) Option<u64>,
                buffer_id = 5: (uint32, optional) Option<u32>,
            }
            GpuCounterEvent gpu_counter_event {
                counter_descriptor = 1,
                counters = 2,
                gpu_id = 3,
            }
            GpuCounterDescriptor gpu_counter_descriptor {
                specs = 1,
            }
            GpuCounterSpec gpu_counter_spec {
                counter_id = 1,
                name = 2,
            }
            GpuCounter gpu_counter {
                counter_id = 1,
                int_value = 2,
                double_value = 3,
            }
            PackagesList packages_list {
                packages = 1: (message, repeated) Vec<PackageInfo>,
            }
            PackageInfo package_info {
                name = 1: (string, optional) Option<String>,
                uid = 2: (uint64, optional) Option<u64>,
                debuggable = 3: (bool, optional) Option<bool>,
                profileable_from_shell = 4: (bool, optional) Option<bool>,
                version_code = 5: (int64, optional) Option<i64>,
            }
            /// A sample of a callstack by perf.
            PerfSample perf_sample {
                cpu = 1: (uint32, optional) Option<u32>,
                pid = 2: (uint32, optional) Option<u32>,
                tid = 3: (uint32, optional) Option<u32>,
                callstack_iid = 4: (uint64, optional) Option<u64>,
                timebase_count = 6: (uint64, optional) Option<u64>,
                kernel_records_lost = 17,
                sample_skipped_reason = 18,
                producer_event = 19,
            }
            /// A sample of a callstack by any sampler.
            StackSample stack_sample {
                task_context = 1,
                task_context_iid = 2,
                execution_context = 3,
                execution_context_iid = 4,
                callstack = 5,
                callstack_iid = 6,
                unwind_error = 7,
                unwind_error_iid = 8,
                primary_descriptor = 9,
                primary_descriptor_iid = 10,
                primary_weight = 11,
            }
            TaskContext task_context {
                iid = 1,
                pid = 2,
                tid = 3,
            }
            ExecutionContext execution_context {
                iid = 1,
                cpu = 2,
            }
            InlineCallstack inline_callstack {
                frames = 1,
            }
            InlineFrame inline_frame {
                function_name = 1,
            }
            Mapping mapping {
                iid = 1: (uint64, optional) Option<u64>,
                build_id = 2: (uint64, optional) Option<u64>,
                path_string_ids = 7: (uint64, repeated, packed = "false") Vec<u64>,
            }
            StackFrame frame {
                iid = 1: (uint64, optional) Option<u64>,
                function_name_id = 2: (uint64, optional) Option<u64>,
                mapping_id = 3: (uint64, optional) Option<u64>,
                rel_pc = 4: (uint64, optional) Option<u64>,
            }
            /// The outermost frame comes first.
            Callstack callstack {
                iid = 1: (uint64, optional) Option<u64>,
                frame_ids = 2: (uint64, repeated, packed = "false") Vec<u64>,
            }
            SystemInfo system_info {
                utsname = 1,
            }
            Utsname utsname {
                release = 3,
            }
            TracingServiceEvent service_event {
                tracing_started = 2,
            }
            FtraceStats ftrace_stats {
                phase = 1,
                cpu_stats = 2,
            }
            FtraceCpuStats ftrace_cpu_stats {
                cpu = 1,
                overrun = 3,
                commit_overrun = 4,
                dropped_events = 8,
            }
            TraceStats trace_stats {
                buffer_stats = 1,
                chunks_discarded = 8,
                patches_discarded = 9,
                invalid_packets = 10,
            }
            BufferStats buffer_stats {
                chunks_overwritten = 3,
                patches_failed = 6,
                chunks_discarded = 18,
                trace_writer_packet_loss = 19,
            }
        }
    };
}

/// The numbers of the fields, in a module for each message, and the list of all of them.
macro_rules! numbers {
    ($($(#[$doc:meta])* $Message:ident $message:ident {
        $($field:ident = $number:literal $(: ($($how:tt)*) $type:ty)?,)*
    })*) => {
        $(
            #[allow(dead_code, non_upper_case_globals, reason = "names of Perfetto's; some are for the writer alone")]
            pub(super) mod $message {
                $(pub(in super::super) const $field: u32 = $number;)*
            }
        )*

        #[cfg(test)]
        const ALL: &[(&str, &str, u32)] = &[$($((stringify!($message), stringify!($field), $number),)*)*];
    };
}

perfetto_messages!(numbers);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// The names that Perfetto's own protos have, of the messages whose fields are counted.
    const NAMES: &str = include_str!("fields.txt");

    #[test]
    fn fields_have_the_names_and_numbers_of_perfettos_protos() {
        let labels: HashSet<&str> =
            NAMES.lines().filter_map(|line| line.rsplitn(3, ' ').last()).collect();
        let mut compared = 0;
        for (message, field, number) in ALL {
            let label = message.replace('_', " ");
            if labels.contains(&*label) {
                let line = format!("{label} {number} {}", field.trim_start_matches("r#"));
                assert!(NAMES.lines().any(|name| name == line), "Perfetto has no {line:?}");
                compared += 1;
            }
        }
        assert!(compared > 130, "{compared}");
    }
}
