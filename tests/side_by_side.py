#!/usr/bin/env python3
"""Runs the tests of the workspace, compiled by `cargo test` with the same arguments, on all processors.

    tests/side_by_side.py TIMES [ARGUMENT OF CARGO TEST...]

`cargo test` runs one file of tests after the other. Most files have one test, or wait for a program, and leave
processors idle. This runs one test at a time in each file, a file on each processor, and one more while some of them
wait: TIMES has how long each file took in the last run, and how much of a processor. The file that took longest begins
first. A file that takes longer than LONGEST_S is ended, and has failed. All files run, whatever fails; the output of
those that failed comes again at the end.

A file that has passed is not run again while its program is the same, and so are the other programs and libraries that
Cargo made, all files of the tree that Rust does not compile, Debian's packages, and what is installed beside TIMES. With
TRACETEE_AGAIN, and in CI, all run.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

LONGEST_S = 900
# Processes that a test ends without waiting for them are not in its time: browsers and Spark's Java are such.
LEAST_PROCESSORS = 0.5


class Job(NamedTuple):
    """A program of tests, in the directory and the environment that Cargo gives it."""

    name: str
    command: list[str]
    directory: Path
    environment: dict[str, str]


class Time(NamedTuple):
    """The time of a job in the last run."""

    seconds: float
    processor_s: float
    digest: str = ""

    @property
    def processors(self) -> float:
        """At most one, so that there are never fewer files at work than processors."""
        return min(1, max(LEAST_PROCESSORS, self.processor_s / max(self.seconds, 0.01)))


Times = dict[str, Time]


class Outcome(NamedTuple):
    """The end of a job."""

    job: Job
    failure: str
    seconds: float
    processor_s: float
    output: str


def jobs(arguments: list[str]) -> list[Job]:
    cargo = ["cargo", "test", *arguments]
    compiled = subprocess.run([*cargo, "--no-run", "--message-format=json-render-diagnostics"], check=True, stdout=subprocess.PIPE)
    messages = [json.loads(line) for line in compiled.stdout.splitlines()]
    found = [Job("documentation", [*cargo, "--doc"], Path.cwd(), {})]
    for message in messages:
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            package = Path(message["manifest_path"]).parent
            source = Path(message["target"]["src_path"]).relative_to(Path.cwd())
            command = [message["executable"], "--test-threads=1"]
            found.append(Job(str(source), command, package, {"CARGO_MANIFEST_DIR": str(package)}))
    return found


def digest_of(*files: Path) -> bytes:
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.digest()


def tree() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\0")
    return sorted(path for path in map(Path, filter(None, listed)) if path.is_file())


def common_digest(files: list[Path], tools: Path) -> bytes:
    """Returns the digest of all that any test may read or start, besides its own program."""
    target = Path(os.environ["CARGO_TARGET_DIR"], "release")
    # Files with a hash in their names belong to Cargo.
    found = [path for folder in (target, target / "examples") for path in folder.iterdir()]
    made = sorted(path for path in found if path.is_file() and path.suffix != ".d" and "-" not in path.name)
    read = [path for path in files if path.suffix != ".rs"]
    packages = subprocess.run(["dpkg-query", "--show"], check=False, stdout=subprocess.PIPE).stdout
    # Each folder of tools has a file of that name; the one of the release's tests has a folder.
    installed = sorted(path for path in tools.glob("*/installed") if path.is_file())
    return digest_of(*read, *made, *installed) + "\n".join(map(str, [*files, *installed])).encode() + packages


def with_digests(found: list[Job], tools: Path) -> dict[str, str]:
    files = tree()
    common, sources = common_digest(files, tools), [path for path in files if path.suffix == ".rs"]
    own = {job.name: sources if job.name == "documentation" else [Path(job.command[0])] for job in found}
    return {name: hashlib.sha256(common + digest_of(*programs)).hexdigest() for name, programs in own.items()}


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
    assert process.stdout
    running.add(process)
    timer = threading.Timer(LONGEST_S, end, [process])
    timer.daemon = True
    timer.start()
    output = process.stdout.read()
    # With the processor time of all processes that it waited for.
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    running.discard(process)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - began
    failure = f"status {process.returncode}" if process.returncode else ""
    if failure and seconds >= LONGEST_S:
        failure = f"ended after {LONGEST_S} s"
    return Outcome(job, failure, seconds, usage.ru_utime + usage.ru_stime, output.decode(errors="replace"))


def schedule(ordered: list[Job], times: Times, pool: ThreadPoolExecutor) -> Iterator[Outcome]:
    """Runs the jobs, in order: one for each processor, and one more if the others leave what it needs."""
    processors = os.cpu_count() or 1
    waiting = deque(ordered)
    at_work: dict[Future[Outcome], float] = {}
    while waiting or at_work:
        while waiting:
            need = times[waiting[0].name].processors if waiting[0].name in times else 1
            is_room = len(at_work) == processors and sum(at_work.values()) + need <= processors
            if len(at_work) >= processors and not is_room:
                break
            at_work[pool.submit(run, waiting.popleft())] = need
        for ended in wait(at_work, return_when=FIRST_COMPLETED).done:
            del at_work[ended]
            yield ended.result()


def main() -> int:
    kept, arguments = Path(sys.argv[1]), sys.argv[2:]
    try:
        times = {name: Time(*time) for name, time in json.loads(kept.read_text()).items()}
    except (OSError, ValueError):
        times = {}
    found = jobs(arguments)
    digests = with_digests(found, kept.parent)
    is_again = "CI" in os.environ or "TRACETEE_AGAIN" in os.environ
    as_before = [] if is_again else [job for job in found if job.name in times and times[job.name].digest == digests[job.name]]
    for job in as_before:
        print(f"{job.name}: has passed with the same programs and files")
    # A file that nobody measured may be the longest.
    ordered = sorted(
        (job for job in found if job not in as_before), key=lambda job: -times[job.name].seconds if job.name in times else -LONGEST_S
    )
    outcomes = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    pool = ThreadPoolExecutor(max(1, len(ordered)))
    try:
        for outcome in schedule(ordered, times, pool):
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
    measured = {job.name: list(times[job.name]) for job in as_before}
    for outcome in outcomes:
        # A test that lacks its tool has not passed.
        is_passed = not outcome.failure and "\nskipped:" not in outcome.output
        digest = digests[outcome.job.name] if is_passed else ""
        measured[outcome.job.name] = [round(outcome.seconds, 2), round(outcome.processor_s, 2), digest]
    kept.write_text(json.dumps(measured))
    outcomes.sort(key=lambda outcome: -outcome.seconds)
    print("\nthe slowest files of tests:")
    for outcome in outcomes[:20]:
        print(f"{outcome.seconds:7.1f} s, {outcome.processor_s:7.1f} of processor time  {outcome.job.name}")
    failed = [outcome for outcome in outcomes if outcome.failure]
    for outcome in failed:
        print(f"\n=== {outcome.job.name} failed: {outcome.failure}\n{outcome.output}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
