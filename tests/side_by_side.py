#!/usr/bin/env python3
"""Runs the tests of the workspace, compiled by `cargo test` with the same arguments, on all processors.

    tests/side_by_side.py DURATIONS [ARGUMENT OF CARGO TEST...]

`cargo test` runs one file of tests after the other. Most files have one test, or wait for a program, and leave processors
idle. This runs as many files at a time as there are processors, one test at a time in each, so that no more tests are at
work than processors. DURATIONS keeps the times of the last run: the file that took longest begins first. A file
that takes longer than LONGEST_S is ended, and has failed. All files run, whatever fails; the output of those that failed
comes again at the end.
"""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

LONGEST_S = 900


class Job(NamedTuple):
    """A program of tests, in the directory and the environment that Cargo gives it."""

    name: str
    command: list[str]
    directory: Path
    environment: dict[str, str]


class Outcome(NamedTuple):
    """The end of a job."""

    job: Job
    failure: str
    seconds: float
    output: str


def jobs(arguments: list[str]) -> list[Job]:
    cargo = ["cargo", "test", *arguments]
    compiled = subprocess.run(
        [*cargo, "--no-run", "--message-format=json-render-diagnostics"], check=True, stdout=subprocess.PIPE
    )
    messages = [json.loads(line) for line in compiled.stdout.splitlines()]
    found = [Job("documentation", [*cargo, "--doc"], Path.cwd(), {})]
    for message in messages:
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            package = Path(message["manifest_path"]).parent
            source = Path(message["target"]["src_path"]).relative_to(Path.cwd())
            command = [message["executable"], "--test-threads=1"]
            found.append(Job(str(source), command, package, {"CARGO_MANIFEST_DIR": str(package)}))
    return found


# Programs at work.
running: set[subprocess.Popen[bytes]] = set()


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a program and what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def run(job: Job) -> Outcome:
    began = time.monotonic()
    process = subprocess.Popen(
        job.command,
        cwd=job.directory,
        env=os.environ | job.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    running.add(process)
    failure = ""
    try:
        output, _ = process.communicate(timeout=LONGEST_S)
        if process.returncode != 0:
            failure = f"status {process.returncode}"
    except subprocess.TimeoutExpired:
        failure = f"ended after {LONGEST_S} s"
        end(process)
        output, _ = process.communicate()
    running.discard(process)
    return Outcome(job, failure, time.monotonic() - began, output.decode(errors="replace"))


def main() -> int:
    kept, arguments = Path(sys.argv[1]), sys.argv[2:]
    try:
        durations = json.loads(kept.read_text())
    except (OSError, ValueError):
        durations = {}
    # A file that nobody measured may be the longest.
    ordered = sorted(jobs(arguments), key=lambda job: -durations.get(job.name, LONGEST_S))
    outcomes = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        for done in as_completed([pool.submit(run, job) for job in ordered]):
            outcome = done.result()
            outcomes.append(outcome)
            said = outcome.failure or "passed"
            print(f"\n[{len(outcomes)}/{len(ordered)}] {outcome.job.name}: {said}, {outcome.seconds:.1f} s")
            print(outcome.output, flush=True)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        pool.shutdown(wait=False, cancel_futures=True)
        for process in running.copy():
            end(process)
        return 130
    kept.write_text(json.dumps({outcome.job.name: round(outcome.seconds, 1) for outcome in outcomes}))
    outcomes.sort(key=lambda outcome: -outcome.seconds)
    print("\nthe slowest files of tests:")
    for outcome in outcomes[:20]:
        print(f"{outcome.seconds:7.1f} s  {outcome.job.name}")
    failed = [outcome for outcome in outcomes if outcome.failure]
    for outcome in failed:
        print(f"\n=== {outcome.job.name} failed: {outcome.failure}\n{outcome.output}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
