"""Perfetto's diff tests as a rig: converts each trace, and compares the tables that trace_processor has of the original with
those of each output. tests/convert/diff-tests starts it.

A trace is `equal` in an output if all tables are; `said` if messages of the conversion name what differs in each of the
others (tables.py has the words); `refused` if there is an error and no output; else `silent`."""
import argparse
import collections
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "trace_processor"))
from engine import Engine
from tables import COVERED, OF_PERFETTO, QUERIES, TRACK, WORDS
from traces import made

# Outputs by name: ending, true for Perfetto's own format. Times of others are compared to the µs.
OUTPUTS = {
    # Through the model, by `through` (tests/convert/examples): the program copies packets.
    "model": (".model.pftrace", True),
    # A smoke test: a copy has the packets of the original.
    "copied": (".copy.pftrace", True),
    "json": (".json", False),
    "dart": (".dart.json", False),
    "text": (".ftrace", False),
}
KINDS = ["equal", "said", "refused", "silent"]
MAX_SHOWN = 5


class Oracle:
    """Tables of traces, by trace_processor. An engine that has crashed is replaced."""

    def __init__(self):
        self.engine = None

    def tables(self, path, is_us):
        try:
            return self.read(path, is_us)
        except (EOFError, RuntimeError, OSError) as error:
            self.engine = None
            return {"error": collections.Counter([str(error)])}

    def read(self, path, is_us):
        if self.engine is None:
            self.engine = Engine()
        else:
            self.engine.reset()
        error = self.engine.load(path)
        if error:
            self.engine = None
            return {"error": collections.Counter([error])}
        self.engine.query(TRACK)
        found = {name: self.rows(sql, is_us) for name, sql in QUERIES.items()}
        names = [name for [name] in self.engine.query("select name from perfetto_tables") if name not in COVERED]
        counts = " union all ".join(f"select '{name}' as name, count(*) as rows from {name}" for name in names)
        found["others"] = collections.Counter(
            {name: count for name, count in self.engine.query(counts) if count})
        found["stats"] = collections.Counter({
            f"{name} {index}": value for name, index, value in self.engine.query(
                "select name, idx, value from stats where severity in ('error', 'data_loss') and value > 0")})
        return found

    def rows(self, sql, is_us):
        rows, columns = self.engine.query(sql), self.engine.columns
        if "key" in columns:
            key = columns.index("key")
            rows = [row for row in rows if not row[key].startswith(OF_READERS)]
        if not is_us:
            return collections.Counter(map(tuple, rows))
        return collections.Counter(
            tuple(of_any_format(column, value) for column, value in zip(columns, row, strict=True)) for row in rows)


# Arguments that one of the engine's readers, of atrace's records or of another format, adds.
OF_READERS = ("cookie", "legacy_unnestable", "legacy_event", "legacy_trace_source", "id", "passthrough")


def of_any_format(column, value):
    """A value as far as formats other than Perfetto's have it."""
    if column.startswith("ns") and value not in (None, -1):
        return (value + 500) // 1000
    if column == "is_thread":
        return None
    if column == "key":
        return value.removeprefix("debug.").removeprefix("args.")
    # The engine puts the name of a value, which JSON has, behind that of its counter.
    return value.removesuffix(" value") if isinstance(value, str) else value


def differences(original, found, is_perfetto):
    """Tables that differ, each with the rows that only the original and only the output has."""
    if "error" in found and "error" not in original:
        return {"error": ([], list(found["error"]))}
    if "error" in original:
        return {}
    differ = {}
    for name in original:
        missing, more = original[name] - found[name], found[name] - original[name]
        # An output may be better than the original; and other formats have no tables of their own.
        if name == "stats" or (name == "others" and not is_perfetto):
            missing = collections.Counter() if name == "stats" else missing
            more = more if name == "stats" else collections.Counter()
        if (missing or more) and (is_perfetto or name not in OF_PERFETTO):
            differ[name] = (list(missing.elements()), list(more.elements()))
    return differ


def converted(source, output):
    """Converts. Returns the path of the result, or None; and what was said."""
    path = source.removesuffix(".in.pftrace") + OUTPUTS[output][0]
    # A mapping without names changes none; with it, packets are copied one by one.
    command = [THROUGH, source, path] if output == "model" else [
        PROGRAM, "convert", "--mapping", "empty-mapping.txt", source, "-o", path]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace")
    return (path if run.returncode == 0 else None), run.stdout + run.stderr


def compared(job):
    """The outputs of a trace: kind, text about it."""
    number, name, data, outputs = job
    source = f"{number}.in.pftrace"
    with open(source, "wb") as file:
        file.write(data)
    results, originals = {}, {}
    for output in outputs:
        is_perfetto = OUTPUTS[output][1]
        path, said = converted(source, output)
        if path is None:
            results[output] = ("refused", said)
            continue
        if is_perfetto not in originals:
            originals[is_perfetto] = ORACLE.tables(source, not is_perfetto)
        differ = differences(originals[is_perfetto], ORACLE.tables(path, not is_perfetto), is_perfetto)
        silent = [table for table in differ if not re.search(WORDS.get(table, "$^"), said)]
        kind = "silent" if silent else "said" if differ else "equal"
        text = ""
        for table, (missing, more) in differ.items():
            how = "SILENT" if table in silent else "said"
            text += f"  {how}: {table}: {len(missing)} rows missing, {len(more)} others\n"
            text += "".join(f"    - {row}\n" for row in missing[:MAX_SHOWN])
            text += "".join(f"    + {row}\n" for row in more[:MAX_SHOWN])
        results[output] = (kind, text + (f"  messages:\n{said}" if differ else ""))
    return name, source, results


def begin(program, through, work):
    global PROGRAM, THROUGH, ORACLE
    PROGRAM, THROUGH, ORACLE = program, through, Oracle()
    os.chdir(work)


def main():
    parser = argparse.ArgumentParser(prog="tests/convert/diff-tests")
    parser.add_argument("checkout", help="a checkout of google/perfetto")
    parser.add_argument("--program", required=True, help="the program tracetee")
    parser.add_argument("--through", required=True, help="the example `through`")
    parser.add_argument("--protoc", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--to", default=",".join(OUTPUTS), help="outputs, separated by commas: " + ", ".join(OUTPUTS))
    parser.add_argument("--only", default="", help="an expression for the names of traces")
    parser.add_argument("--show", default="silent", help="kinds whose differences are printed, separated by commas: " + ", ".join(KINDS))
    parser.add_argument("--work", help="a directory in which all traces stay")
    parser.add_argument("--engines", type=int, default=2, help="engines at a time")
    arguments = parser.parse_args()
    outputs, shown = arguments.to.split(","), arguments.show.split(",")
    with tempfile.TemporaryDirectory() as temporary:
        work = os.path.abspath(arguments.work or temporary)
        os.makedirs(work, exist_ok=True)
        traces, failed = made(arguments.checkout, work, arguments.protoc)
        for name, why in failed.items():
            print(f"cannot be made: {name}: {why.splitlines()[0]}")
        open(os.path.join(work, "empty-mapping.txt"), "w").close()
        jobs = [(number, name, data, outputs) for number, (name, data) in enumerate(sorted(traces.items()))
                if re.search(arguments.only, name)]
        totals = collections.Counter()
        begun = (os.path.abspath(arguments.program), os.path.abspath(arguments.through), work)
        with multiprocessing.Pool(arguments.engines, begin, begun) as pool:
            for name, source, results in pool.imap(compared, jobs):
                print(f"{source:16} " + " ".join(f"{output}={results[output][0]}" for output in outputs) + f" {name}")
                for output, (kind, text) in results.items():
                    totals[output, kind] += 1
                    if kind in shown:
                        print(f" {output}:\n{text}", end="")
                sys.stdout.flush()
    print(f"\n{len(jobs)} traces\n{'':12}" + "".join(f"{kind:>9}" for kind in KINDS))
    for output in outputs:
        print(f"{output:12}" + "".join(f"{totals[output, kind]:9}" for kind in KINDS))
    sys.exit(any(totals[output, "silent"] for output in outputs))


if __name__ == "__main__":
    main()
