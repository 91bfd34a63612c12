"""A gateway in a process of its own, started as a user would start it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mt_core.errors import GatewayError

READY = "ready at "
STOP_TIMEOUT_S = 60.0


@dataclass
class GatewayProcess:
    """Runs `freshtable gateway` with a home folder."""

    home: Path
    settings: Sequence[str] = ()
    _process: subprocess.Popen[str] | None = field(default=None, init=False)

    def start(self) -> str:
        """Start the gateway, wait until Spark is ready, and return the gateway's URL.

        Raises GatewayError with the gateway's messages if it exits.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        options = [part for setting in self.settings for part in ("-D", setting)]
        command = [sys.executable, "-P", "-m", "mt_core", "gateway", "--home", str(self.home), *options]
        # A file, because a pipe that nobody reads fills up and blocks the gateway.
        messages = self.home / "messages.txt"
        with messages.open("w", encoding="utf-8") as stderr:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self._process = process
        assert process.stdout is not None
        for line in process.stdout:
            if READY in line:
                return line.split(READY, 1)[1].split()[0]
        code = process.wait()
        raise GatewayError(
            f"The gateway did not start: {messages.read_text(encoding='utf-8').strip() or code}"
        )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """Stop the gateway and wait until it has exited. Idempotent."""
        if self._process is None:
            return
        with self._process as process:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
