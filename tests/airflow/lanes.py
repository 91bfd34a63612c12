"""The lanes of the contract of schedulers: processes of pytest that mostly wait for the clock,
beside the tests of the session.

The session's Airflow serves a gateway of each lane. Whoever stops a component of that Airflow waits
for their end before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from mt_core.testing.scheduler_contract import SchedulerContract
from tests.airflow.settings import OtherGateway
from tests.airflow.stack import ROOT

VARIABLE = "FRESHTABLE_TEST_LANE"
# Fewer would end after the other tests of a session; for each, Airflow parses 32 more files when it starts.
LANES = 3
LONGEST_S = 840.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """An Airflow, and the port and the prefix of the lane's own gateway there."""

    url: str
    port: int
    prefix: str

    def environment(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def of_environment(cls) -> Lane:
        return cls(**json.loads(os.environ[VARIABLE]))


class Lanes:
    """The lanes of a session; none where nothing of it asks for them."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        self._folder = folder
        self._ports = {f"lane{number}__": port for number, port in enumerate(ports)}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._until = 0.0

    @property
    def gateways(self) -> tuple[OtherGateway, ...]:
        return tuple(
            OtherGateway(url=f"http://127.0.0.1:{port}", prefix=prefix)
            for prefix, port in self._ports.items()
        )

    @contextmanager
    def running(self, url: str) -> Iterator[None]:
        """Start them with that Airflow, and leave none in the end."""
        try:
            for number, (prefix, port) in enumerate(self._ports.items()):
                self._processes.append(self._start(number, Lane(url=url, port=port, prefix=prefix)))
            self._until = time.monotonic() + LONGEST_S
            yield
        finally:
            for process in self._processes:
                process.kill()
                process.wait()

    def wait(self) -> None:
        """Wait until all have ended."""
        for number in range(len(self._processes)):
            self.result(number)

    def result(self, number: int) -> tuple[int, str]:
        """Return the exit code of a lane and what it said, as soon as it has ended;
        it is killed when that takes too long.
        """
        process = self._processes[number]
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, self._until - time.monotonic()))
        process.kill()
        return process.wait(), self._said(number).read_text(errors="replace")

    def _start(self, number: int, lane: Lane) -> subprocess.Popen[bytes]:
        """Begin with every so many-th test of the contract."""
        names = [name for name in dir(SchedulerContract) if name.startswith("test_")][
            number :: len(self._ports)
        ]
        tests = [f"tests/airflow/contract_lane.py::TestAirflowSchedulerForReal::{name}" for name in names]
        with self._said(number).open("wb") as said:
            return subprocess.Popen(
                [sys.executable, "-m", "pytest", "-q", "--durations=0", *tests],
                cwd=ROOT,
                env=os.environ | lane.environment(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    def _said(self, number: int) -> Path:
        return self._folder / f"lane{number}.txt"
