"""How long does a gateway take to respond and to be ready?

The comparison is a bare SparkSession with the same jars.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import psutil

from benchmarks import bare_session
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples
from mt_core.demo.free_ports import free_port
from mt_core.demo.process import GatewayProcess

ROUNDS = 4
TARGET_S = 2.0
POLL_S = 0.01
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start: times in seconds, resident memory in bytes."""

    ready: float
    python: int
    jvm: int
    first_answer: float = 0.0


def measure() -> Iterator[Finding]:
    """Yield the table of starts."""
    gateways, sessions = [], []
    for _ in range(ROUNDS):
        gateways.append(_start_gateway())
        sessions.append(_start_session())
    answers = Samples([start.first_answer for start in gateways])
    ours, bare = Samples([each.ready for each in gateways]), Samples([each.ready for each in sessions])
    yield Finding(
        title="Start of a gateway and of a bare SparkSession",
        columns=["", "bare SparkSession", "gateway", "ratio"],
        rows=[
            ["first answer to GET /v3/info", "", answers.shown(), ""],
            ["ready", bare.shown(), ours.shown(), f"{ours.median / bare.median:.2f}"],
            ["memory of Python", _memory(sessions, "python"), _memory(gateways, "python"), ""],
            ["memory of the JVM", _memory(sessions, "jvm"), _memory(gateways, "jvm"), ""],
        ],
        targets=[
            Target(asked="first answer within 2 s", measured=answers.shown(), met=answers.median <= TARGET_S),
        ],
        notes=[
            (
                f"Median (min to max) of {ROUNDS} starts of fresh processes on empty homes, in turns, "
                "from the start of the process."
            ),
            "Ready: the gateway has its catalog, scheduler and workers; the bare session has run its first "
            "statement on the same catalog. Memory is resident, right after.",
        ],
    )


def _memory(starts: list[Start], part: str) -> str:
    sizes = sorted(getattr(start, part) / MIB for start in starts)
    return f"{sizes[len(sizes) // 2]:.0f} MiB ({sizes[0]:.0f} to {sizes[-1]:.0f})"


def _start_gateway() -> Start:
    with TemporaryDirectory(prefix="freshtable-bench-") as folder:
        home = Path(folder)
        port = free_port()
        gateway = GatewayProcess(home, [f"sql-gateway.endpoint.rest.port={port}"])
        answered: list[float] = []
        begun = time.perf_counter()
        asking = threading.Thread(target=lambda: answered.append(_first_answer(port)))
        asking.start()
        try:
            gateway.start()
            ready = time.perf_counter()
            asking.join()
            return Start(
                first_answer=answered[0] - begun,
                ready=ready - begun,
                python=_rss(gateway.pid),
                jvm=_jvm_rss(gateway.pid),
            )
        finally:
            gateway.stop()


def _first_answer(port: int) -> float:
    """Return when the gateway first responded."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        deadline = time.perf_counter() + 60
        while time.perf_counter() < deadline:
            try:
                if client.get("/v3/info").is_success:
                    return time.perf_counter()
            except httpx.TransportError:
                time.sleep(POLL_S)
    raise TimeoutError(f"nobody answered on port {port}")


def _start_session() -> Start:
    with TemporaryDirectory(prefix="freshtable-bench-") as folder:
        begun = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", bare_session.__name__, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ,
        )
        try:
            assert process.stdout is not None
            if process.stdout.readline().strip() != bare_session.READY:
                raise ChildProcessError("The bare SparkSession did not start.")
            ready = time.perf_counter()
            return Start(ready=ready - begun, python=_rss(process.pid), jvm=_jvm_rss(process.pid))
        finally:
            process.communicate("\n")


def _rss(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)


def _jvm_rss(pid: int) -> int:
    children = psutil.Process(pid).children(recursive=True)
    return sum(int(child.memory_info().rss) for child in children if "java" in child.name())
