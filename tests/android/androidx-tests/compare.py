"""Compares a trace of androidx.tracing's wire driver with ours of the same run, as Perfetto's trace_processor reads both.

    compare.py WIRE OURS SECTIONS

Each thread has the same slices in the same order, with depth, category, arguments; flows connect the same slices.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "convert/trace_processor"))
from engine import Engine

SLICES = """
select s.id, t.name as thread, s.name, s.depth, s.category, s.dur >= 0 as ended, s.arg_set_id from slice s
join thread_track k on s.track_id = k.id join thread t using (utid) where t.name glob '*-[0-9]*'
order by t.name, s.id
"""
ARGUMENTS = """
select arg_set_id, key, coalesce(string_value, real_value, int_value) as value from args
where key glob 'debug.*' or key = 'correlation_id' order by 1, 2
"""
FLOWS = "select slice_out, slice_in from flow"


def read(path):
    engine = Engine()
    error = engine.load(path)
    if error:
        raise SystemExit(f"{path}: {error}")
    arguments = {}
    for group, key, value in engine.query(ARGUMENTS):
        name = key.removeprefix("debug.").removeprefix("args.")
        if name != "stack" and name != "frames_left_out":
            # The engine puts a prefix before correlation ids.
            arguments.setdefault(group, []).append((name, str(value).removeprefix("tp:#")))
    threads, places = {}, {}
    for number, thread, name, depth, category, ended, group in engine.query(SLICES):
        slices = threads.setdefault(thread, [])
        places[number] = (thread, len(slices))
        slices.append((name, depth, category, ended, tuple(sorted(arguments.get(group, [])))))
    flows = sorted((places.get(out), places.get(into)) for out, into in engine.query(FLOWS))
    engine.close()
    return threads, flows


wire, wire_flows = read(sys.argv[1])
ours, our_flows = read(sys.argv[2])
count = sum(map(len, wire.values()))
if count < int(sys.argv[3]):
    raise SystemExit(f"the wire's trace has {count} slices")
if wire.keys() != ours.keys():
    raise SystemExit(f"threads: {sorted(wire)} and {sorted(ours)}")
for thread, slices in wire.items():
    mine = ours[thread]
    for place, (theirs, own) in enumerate(zip(slices, mine, strict=False)):
        if theirs != own:
            raise SystemExit(f"{thread}, slice {place}: {theirs} and {own}")
    if len(slices) != len(mine):
        raise SystemExit(f"{thread}: {len(slices)} and {len(mine)} slices")
if wire_flows != our_flows:
    different = [pair for pair in zip(wire_flows, our_flows, strict=False) if pair[0] != pair[1]]
    raise SystemExit(f"{len(wire_flows)} and {len(our_flows)} flows, first difference: {different[:1]}")
print(f"{count} slices and {len(wire_flows)} flows are equal")
