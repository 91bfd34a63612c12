"""A gateway in a process of its own, as a user would start it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mt_core.errors import GatewayError

READY = "ready at "
STOP_TIMEOUT_S = 60.0


class GatewayProcess:
    """`freshtable gateway` on a home folder; `start` returns its URL once Spark is up."""

    def __init__(self, home: Path, settings: Sequence[str] = ()) -> None:
        options = [part for setting in settings for part in ("-D", setting)]
        self._command = [sys.executable, "-m", "mt_core", "gateway", "--home", str(home), *options]
        self._home = home
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Start it and wait until it says that it is ready; raises GatewayError with what it said instead."""
        self._home.mkdir(parents=True, exist_ok=True)
        # Into a file: a pipe that nobody reads fills up, and then stops who writes to it.
        messages = self._home / "messages.txt"
        with messages.open("w", encoding="utf-8") as stderr:
            process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self._process = process
        assert process.stdout is not None
        for line in process.stdout:
            if READY in line:
                return line.split(READY, 1)[1].split()[0]
        code = process.wait()
        raise GatewayError(f"The gateway did not start: {messages.read_text(encoding='utf-8').strip() or code}")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """Ask it to stop and wait; harmless if it is gone."""
        if self._process is None:
            return
        with self._process as process:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
