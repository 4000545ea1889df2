"""Prints the names of the fields that the reader counts, for collector/trace/src/perfetto/fields.txt; from a checkout of Perfetto
and the directory of grpcio-tools that tests/convert/diff-tests has installed:

    field_names.py CHECKOUT ~/.cache/tracetee/protoc-1.85.1 > collector/trace/src/perfetto/fields.txt
"""
import sys
import tempfile

from traces import Protos

with tempfile.TemporaryDirectory() as work:
    packet = Protos(sys.argv[1], work, sys.argv[2]).trace.DESCRIPTOR.fields_by_name["packet"].message_type


def fields(message):
    """The fields of a message, with extensions."""
    return sorted(list(message.fields) + message.file.pool.FindAllExtensions(message), key=lambda field: field.number)


def inner(message, name):
    return next(field.message_type for field in fields(message) if field.name == name)


event, track = inner(packet, "track_event"), inner(packet, "track_descriptor")
bundle, tree = inner(packet, "ftrace_events"), inner(packet, "process_tree")
MESSAGES = {
    "packet": packet,
    "track event": event,
    "legacy event": inner(event, "legacy_event"),
    "track descriptor": track,
    "process descriptor": inner(track, "process"),
    "thread descriptor": inner(track, "thread"),
    "ftrace bundle": bundle,
    "interned data": inner(packet, "interned_data"),
    "perf sample": inner(packet, "perf_sample"),
    "stack sample": inner(packet, "stack_sample"),
    "frame timeline": inner(packet, "frame_timeline_event"),
    "GPU counter": inner(packet, "gpu_counter_event"),
    "packet defaults": inner(packet, "trace_packet_defaults"),
    "process": inner(tree, "processes"),
    "thread": inner(tree, "threads"),
    "ftrace event": inner(bundle, "event"),
}
for label, message in MESSAGES.items():
    for field in fields(message):
        print(f"{label} {field.number} {field.name}")
