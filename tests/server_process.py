"""A server of the tests in a process of its own, which a test can kill and start again on the same ports."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from tests.support.gateway.own_process import wait_until

START_S = 180.0


class ServerProcess:
    """The process of *command*, with its log in *folder*. It is ready when *answers* returns True."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        answers: Callable[[], bool],
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._command, self._folder, self._answers = command, folder, answers
        self._environ = {**os.environ, **(environ or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start the process, which keeps the files of its predecessor, and wait until it answers."""
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder / "server.log"
        with log.open("ab") as output:
            process = self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env=self._environ,
            )
        try:
            wait_until(
                lambda: self._answers() or process.poll() is not None, f"no {self._command[0]}", START_S
            )
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill the process with SIGKILL. Harmless if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def is_success(url: str) -> bool:
    """Return whether GET *url* is answered without an error."""
    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.TransportError:
        return False
