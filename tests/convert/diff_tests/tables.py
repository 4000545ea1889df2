"""The tables that are compared, by their content: ids, and what follows from them, differ from trace to trace."""

# The owner of a track: process and thread.
TRACK = """create perfetto table rig_track as
select k.id, k.name, p.pid, t.tid, up.name as parent, k.source_arg_set_id as source,
  extract_arg(k.dimension_arg_set_id, 'cpu') as cpu, k.type, k.type = 'thread_execution' as is_thread
from track k left join track up on up.id = k.parent_id
left join thread t on t.utid = extract_arg(k.dimension_arg_set_id, 'utid')
left join process p on p.upid = coalesce(extract_arg(k.dimension_arg_set_id, 'upid'), t.upid)"""

# Columns that only name a row of another table, or a writer's own number.
NUMBERS = ("'upid', 'utid', 'source', 'trace_id', 'source_id', 'parent_track_id', 'track_compressor_idx', 'trace_id_is_process_scoped', "
           "'legacy_trace_source_id', 'is_root_in_scope', 'end_callsite_id', 'end_utid', 'callsite_id', 'process_track_id'")

CALLSITE = "(select f.name || ' ' || c.depth from stack_profile_callsite c join stack_profile_frame f on f.id = c.frame_id where c.id = {})"

FRAME = "x.ts as ns, x.ts + x.dur as ns_end, x.name, p.pid, x.layer_name, x.display_frame_token, x.surface_frame_token"

# By name: the query. Columns whose names begin with `ns` are times, which are compared to the µs where a format has no more.
QUERIES = {
    "slice": "select s.ts as ns, iif(s.dur < 0, -1, s.ts + s.dur) as ns_end, s.name, k.pid, k.tid, k.is_thread from slice s join rig_track k on k.id = s.track_id "
             "where k.type not like '%frame_timeline%'",
    "depth": "select s.ts as ns, s.name, s.depth, up.ts as ns_up, up.name as up_name from slice s left join slice up on up.id = s.parent_id "
             "join rig_track k on k.id = s.track_id where k.type not like '%frame_timeline%'",
    "category": "select s.ts as ns, s.name, s.category from slice s where s.category is not null",
    "thread_time": "select s.ts as ns, s.name, s.thread_ts as ns_thread, s.thread_ts + s.thread_dur as ns_thread_end from slice s where s.thread_ts is not null",
    "args": f"select s.ts as ns, s.name, a.key, a.display_value from slice s join args a using (arg_set_id) "
            f"join rig_track k on k.id = s.track_id where a.key not in ({NUMBERS}) and k.type not like '%frame_timeline%'",
    "track": "select k.name, k.pid, k.tid, k.parent, k.is_thread from rig_track k where k.id in (select track_id from slice)",
    "track_args": f"select k.name, k.pid, k.tid, a.key, a.display_value from rig_track k join args a on a.arg_set_id = k.source "
                  f"where k.id in (select track_id from slice union select track_id from counter) and a.key not in ({NUMBERS})",
    "counter": "select c.ts as ns, c.value, k.name, k.pid, k.tid, k.cpu from counter c join rig_track k on k.id = c.track_id",
    "unit": "select distinct k.name, k.unit from counter_track k where k.id in (select track_id from counter) and k.unit is not null",
    "flow": "select o.ts as ns, o.name, i.ts as ns_in, i.name as in_name from flow f join slice o on o.id = f.slice_out join slice i on i.id = f.slice_in",
    "sched": "select s.ts as ns, iif(s.dur < 0, -1, s.ts + s.dur) as ns_end, s.cpu, t.tid, s.end_state, s.priority from sched s join thread t using (utid)",
    "thread_state": "select s.ts as ns, iif(s.dur < 0, -1, s.ts + s.dur) as ns_end, s.cpu, t.tid, p.pid, s.state, s.io_wait, s.blocked_function, s.irq_context, w.tid as waker "
                    "from thread_state s join thread t using (utid) left join process p using (upid) left join thread w on w.utid = s.waker_utid",
    "thread": "select t.tid, t.name, p.pid, t.start_ts as ns_start, t.end_ts as ns_end, t.is_main_thread from thread t left join process p using (upid) where t.tid != 0",
    "process": "select p.pid, p.name, p.start_ts as ns_start, p.end_ts as ns_end, up.pid as parent, p.uid, p.cmdline "
               "from process p left join process up on up.upid = p.parent_upid where p.pid != 0",
    "ftrace_event": "select e.ts as ns, e.name, e.cpu, t.tid, (select group_concat(a.key || '=' || a.display_value) from args a "
                    "where a.arg_set_id = e.arg_set_id) as args from ftrace_event e left join thread t using (utid)",
    "perf_sample": f"select s.ts as ns, t.tid, s.cpu, s.cpu_mode, s.unwind_error, {CALLSITE.format('s.callsite_id')} as stack "
                   "from perf_sample s left join thread t using (utid)",
    "cpu_sample": f"select s.ts as ns, t.tid, s.process_priority, {CALLSITE.format('s.callsite_id')} as stack "
                  "from cpu_profile_stack_sample s left join thread t using (utid)",
    "actual_frame": f"select {FRAME}, x.present_type, x.on_time_finish, x.gpu_composition, x.jank_type, x.jank_severity_type, x.prediction_type, x.jank_tag "
                    "from actual_frame_timeline_slice x left join process p using (upid)",
    "expected_frame": f"select {FRAME} from expected_frame_timeline_slice x left join process p using (upid)",
    "package": "select package_name, uid, debuggable, profileable_from_shell, version_code from package_list",
    "android_log": "select l.ts as ns, t.tid, l.prio, l.tag, l.msg from android_logs l left join thread t using (utid)",
    "heap_profile": f"select h.ts as ns, p.pid, h.heap_name, h.count, h.size, {CALLSITE.format('h.callsite_id')} as stack "
                    "from heap_profile_allocation h left join process p using (upid)",
    "metadata": "select name, int_value, str_value from metadata where name not in ('trace_size_bytes', 'trace_type', 'trace_uuid', "
                "'trace_time_clock_id')",
    "clock_snapshot": "select ts as ns, clock_id, clock_name, clock_value from clock_snapshot",
}

# Of these nothing but the number of rows is compared: their rows are the tables above, or follow from them.
COVERED = {
    "__intrinsic_args", "__intrinsic_slice", "__intrinsic_counter", "__intrinsic_track", "__intrinsic_thread", "__intrinsic_process",
    "__intrinsic_sched_slice", "__intrinsic_thread_state", "__intrinsic_ftrace_event", "__intrinsic_cpu", "machine", "flow", "metadata",
    "clock_snapshot", "perf_sample", "cpu_profile_stack_sample", "package_list", "__intrinsic_android_logs", "heap_profile_allocation",
    "__intrinsic_trace_file", "experimental_proto_path", "experimental_proto_content", "experimental_missing_chrome_processes",
    "__intrinsic_file", "perfetto_tables", "spurious_sched_wakeup", "stack_profile_symbol", "__intrinsic_chrome_raw",
    "__intrinsic_perf_session", "stack_profile_mapping", "stack_profile_frame", "stack_profile_callsite", "gpu_counter_group",
}

# Said: a message of the conversion that fits names what differs in the table.
EVENTS = r"slices|tracks without a process|instants|sections|track event|legacy event|flow points|ftrace events?|kernel events|events other|packets|packet field|descriptor|interned data|markers|clock"
KERNEL = r"thread states|kernel events|ftrace|events other|packets of other machines|packet field|sched"
WORDS = {
    "slice": EVENTS, "depth": EVENTS + "|overlap|tracks",
    "category": EVENTS + "|categories", "thread_time": EVENTS + "|CPU times",
    "args": EVENTS + "|arguments", "track": EVENTS + "|tracks|process names|thread names|counter", "track_args": EVENTS + "|tracks|counter",
    "counter": EVENTS + "|counter|rounded", "unit": EVENTS + "|units|counter", "flow": EVENTS + "|flow",
    "sched": KERNEL, "thread_state": KERNEL,
    "thread": EVENTS + "|thread names|process names|threads|processes|process field|thread field",
    "process": EVENTS + "|process names|processes|process field|into their process",
    "ftrace_event": KERNEL + "|markers",
    "perf_sample": r"samples?\b|stack", "cpu_sample": r"samples?\b|stack", "actual_frame": "frames|frame timeline", "expected_frame": "frames|frame timeline",
    "package": "packages", "android_log": "android_log|packet|track event field log_message", "heap_profile": "profile|packet", "metadata": "packet|header|metadata|trace info",
    "clock_snapshot": "clock", "others": "packet field",
}

# Tables that other formats cannot hold, or that the engine makes of the format itself.
OF_PERFETTO = {"metadata", "clock_snapshot", "track", "track_args", "unit", "ftrace_event"}
