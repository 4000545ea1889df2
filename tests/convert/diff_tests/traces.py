"""Makes the traces of Perfetto's diff tests from a checkout of Perfetto: text protos in tests and in files, and those that
scripts write. Their messages and extensions are compiled from the checkout's own protos, as Perfetto's tests do."""
import ast
import glob
import os
import subprocess
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

PROTOS = [
    "protos/perfetto/trace/trace.proto",
    "protos/perfetto/trace/test_extensions.proto",
    "protos/perfetto/trace/gpu/gpu_track_event.proto",
    "protos/perfetto/trace/gpu/gpu_interned_data.proto",
    "protos/third_party/chromium/chrome_enums.proto",
    "protos/third_party/chromium/chrome_track_event.proto",
    "protos/third_party/android/android_extensions.proto",
]


class Protos:
    """The messages of a checkout."""

    def __init__(self, checkout, work, protoc):
        self.descriptor = os.path.join(work, "trace.descriptor")
        subprocess.run(
            [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"-I{protoc}/grpc_tools/_proto", "--include_imports",
             f"--descriptor_set_out={self.descriptor}", *PROTOS],
            check=True, cwd=checkout, env={**os.environ, "PYTHONPATH": protoc},
        )
        with open(self.descriptor, "rb") as file:
            files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
        self.pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            self.pool.AddSerializedFile(file.SerializeToString())
        self.trace = message_factory.GetMessageClass(self.pool.FindMessageTypeByName("perfetto.protos.Trace"))

    def parse(self, text):
        # As Perfetto's own tests: of a field that is there twice, the last counts.
        return text_format.Merge(text, self.trace(), descriptor_pool=self.pool)


def texts(tests):
    """Names and text protos."""
    for path in sorted(glob.glob(f"{tests}/**/*.textproto", recursive=True)):
        with open(path) as file:
            yield os.path.relpath(path, tests), file.read()
    for path in sorted(glob.glob(f"{tests}/**/*.py", recursive=True)):
        with open(path) as file:
            functions = [node for node in ast.walk(ast.parse(file.read())) if isinstance(node, ast.FunctionDef)]
        for function in functions:
            # The expected output of a metric is a text proto too; that of a trace is the argument `trace`.
            traces = [word.value for call in ast.walk(function) if isinstance(call, ast.Call)
                      for word in call.keywords if word.arg == "trace"]
            for trace in traces:
                if isinstance(trace, ast.Call) and getattr(trace.func, "id", "") == "TextProto" \
                        and isinstance(trace.args[0], ast.Constant):
                    yield f"{os.path.relpath(path, tests)}:{function.name}", trace.args[0].value


def scripts(tests):
    """Scripts that write a trace to stdout."""
    for path in sorted(glob.glob(f"{tests}/**/*.py", recursive=True)):
        with open(path) as file:
            if "synth_common.create_trace" in file.read():
                yield os.path.relpath(path, tests), path


def made(checkout, work, protoc):
    """Makes all traces. Returns name and bytes of each different one, and why others cannot be made."""
    protos = Protos(checkout, work, protoc)
    tests = os.path.join(checkout, "test", "trace_processor")
    found, failed = {}, {}
    for name, text in texts(tests):
        try:
            found.setdefault(protos.parse(text).SerializeToString(deterministic=True), name)
        except (text_format.ParseError, ValueError) as error:
            failed[name] = str(error)
    for name, path in scripts(tests):
        run = subprocess.run(
            [sys.executable, path, protos.descriptor], capture_output=True,
            env={**os.environ, "PYTHONPATH": os.path.join(checkout, "test")},
        )
        if run.returncode == 0:
            found.setdefault(run.stdout, name)
        else:
            failed[name] = run.stderr.decode(errors="replace").strip().splitlines()[-1]
    found.pop(b"", None)
    return {name: data for data, name in found.items()}, failed
