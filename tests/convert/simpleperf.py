"""Writes a file as `simpleperf report-sample --protobuf` does, with google.protobuf and the fields of simpleperf's public
cmd_report_sample.proto, and prints the samples in it, a JSON value a line: time, process, thread, its name, weight, frames."""
import json
import random
import struct
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

MESSAGES = {
    "Entry": "uint64 vaddr_in_file=1, uint32 file_id=2, int32 symbol_id=3, int32 execution_type=4",
    "Sample": "uint64 time=1, int32 thread_id=2, Entry* callchain=3, uint64 event_count=4, uint32 event_type_id=5",
    "Lost": "uint64 sample_count=1, uint64 lost_count=2",
    "File": "uint32 id=1, string path=2, string* symbol=3, string* mangled_symbol=4",
    "Thread": "uint32 thread_id=1, uint32 process_id=2, string thread_name=3",
    "Meta": "string* event_type=1, string app_package_name=2, bool trace_offcpu=6",
    "Switch": "bool switch_on=1, uint64 time=2, uint32 thread_id=3",
    "Record": "Sample sample=1, Lost lost=2, File file=3, Thread thread=4, Meta meta_info=5, Switch context_switch=6",
}


def record_type():
    file = descriptor_pb2.FileDescriptorProto(name="simpleperf.proto", package="simpleperf", syntax="proto2")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in fields.split(", "):
            kind, name_number = text.split(" ")
            name, number = name_number.split("=")
            field = message.field.add(name=name, number=int(number), label=3 if kind.endswith("*") else 1)
            kind = kind.removesuffix("*")
            if kind in MESSAGES:
                field.type, field.type_name = field.TYPE_MESSAGE, f".simpleperf.{kind}"
            else:
                field.type = getattr(field, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("simpleperf.Record"))


def main():
    rng, record = random.Random(7), record_type()
    files = [[f"/lib/{n}.so", [f"ns{n}::f{m}(int)" for m in range(9)]] for n in range(5)] + [["[kernel.kallsyms]", []]]
    threads = {100 + n: [100 if n < 3 else 200, f"thread é {n}"] for n in range(6)}
    records, rows = [record(meta_info={"event_type": ["cpu-clock", "sched:sched_switch"]})], []
    for _ in range(2000):
        time, tid, weight = rng.randrange(10**12, 2 * 10**12), rng.choice(list(threads)), rng.randrange(10**6)
        chain, names = [], []
        for _ in range(rng.randrange(20)):
            file = rng.randrange(len(files))
            path, symbols = files[file]
            symbol = rng.randrange(-1, len(symbols))
            address = rng.randrange(2**64)
            chain.append({"vaddr_in_file": address, "file_id": file, "symbol_id": symbol, "execution_type": 3})
            names.append(symbols[symbol] if symbol >= 0 else f"{path}+{address:#x}")
        event = rng.randrange(2)
        sample = {"time": time, "thread_id": tid, "callchain": chain, "event_count": weight, "event_type_id": event}
        records.append(record(sample=sample))
        rows.append([time, *threads[tid][:1], tid, threads[tid][1], weight, names])
        records.append(record(context_switch={"switch_on": True, "time": time, "thread_id": tid}))
    records.append(record(lost={"sample_count": 2000, "lost_count": 17}))
    for number, (path, symbols) in enumerate(files):
        records.append(record(file={"id": number, "path": path, "symbol": symbols, "mangled_symbol": symbols}))
    for tid, (pid, name) in threads.items():
        records.append(record(thread={"thread_id": tid, "process_id": pid, "thread_name": name}))
    with open(sys.argv[1], "wb") as out:
        out.write(b"SIMPLEPERF" + struct.pack("<H", 1))
        for one in records:
            data = one.SerializeToString()
            out.write(struct.pack("<I", len(data)) + data)
        out.write(struct.pack("<I", 0))
    for row in sorted(rows, key=lambda row: row[0]):
        print(json.dumps(row))


main()
