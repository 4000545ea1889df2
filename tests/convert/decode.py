"""Prints what a Perfetto trace holds, a JSON value a line, read by Perfetto's own protos."""
import json
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

trace = Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())

tracks, names, categories, stacks = {}, {}, {}, {}


def owner(uuid):
    track = tracks[uuid]
    if track.HasField("thread"):
        return ["thread", track.thread.pid, track.thread.tid, track.thread.thread_name]
    parent = tracks[track.parent_uuid]
    return ["track", parent.process.pid, track.name]


def plain(annotation):
    if annotation.dict_entries:
        return {entry.name: plain(entry) for entry in annotation.dict_entries}
    if annotation.array_values:
        return [plain(value) for value in annotation.array_values]
    kind = annotation.WhichOneof("value")
    return getattr(annotation, kind) if kind else None


def value(annotation):
    return json.dumps(plain(annotation), ensure_ascii=False)


def say(*what):
    print(json.dumps(what, ensure_ascii=False))


for packet in trace.packet:
    if packet.HasField("clock_snapshot"):
        say("clocks", {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks})
    if packet.HasField("interned_data"):
        names.update({one.iid: one.name for one in packet.interned_data.event_names})
        categories.update({one.iid: one.name for one in packet.interned_data.event_categories})
    if packet.HasField("track_descriptor"):
        tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if packet.track_descriptor.HasField("process"):
            process = packet.track_descriptor.process
            say("process", process.pid, process.process_name)
    if not packet.HasField("track_event"):
        continue
    event, at = packet.track_event, packet.timestamp
    stack = stacks.setdefault(event.track_uuid, [])
    told = [names.get(event.name_iid, ""), [categories[iid] for iid in event.category_iids]]
    flows = [len(event.flow_ids), len(event.terminating_flow_ids)]
    args = [[annotation.name, value(annotation)] for annotation in event.debug_annotations]
    if event.type == TrackEvent.TYPE_SLICE_BEGIN:
        stack.append([at, told, flows, args])
    elif event.type == TrackEvent.TYPE_SLICE_END:
        begun = stack.pop()
        say("slice", owner(event.track_uuid), begun[0], at, *begun[1:])
    elif event.type == TrackEvent.TYPE_INSTANT:
        say("instant", owner(event.track_uuid), at, *told)
    elif event.type == TrackEvent.TYPE_COUNTER:
        is_real = event.HasField("double_counter_value")
        say("counter", owner(event.track_uuid), at, event.double_counter_value if is_real else event.counter_value)
for uuid, stack in stacks.items():
    for at, told, flows, args in stack:
        say("open", owner(uuid), at, told, flows, args)
