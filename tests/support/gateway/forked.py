"""Short `freshtable gateway` commands.

Each runs in a process forked from a process that has imported the gateway.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from subprocess import CompletedProcess

END_S = 180.0
_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload(["mt_core.cli", "mt_core.app.serve"])


def run_gateway(*arguments: str, environ: Mapping[str, str] | None = None) -> CompletedProcess[str]:
    """Run `freshtable gateway` with *arguments* to its end, and return its exit code and output."""
    with tempfile.TemporaryDirectory() as folder:
        stdout, stderr = Path(folder, "stdout"), Path(folder, "stderr")
        process = _FORKS.Process(
            target=_gateway,
            args=(arguments, dict(os.environ if environ is None else environ), stdout, stderr),
        )
        process.start()
        process.join(END_S)
        if process.exitcode is None:
            process.kill()
            process.join()
        said = [file.read_text(encoding="utf-8") for file in (stdout, stderr)]
        return CompletedProcess(arguments, process.exitcode or 0, *said)


def _gateway(arguments: Sequence[str], environ: Mapping[str, str], stdout: Path, stderr: Path) -> None:
    from mt_core.cli import app

    for number, file in enumerate((stdout, stderr), 1):
        with file.open("wb") as stream:
            os.dup2(stream.fileno(), number)
    os.environ.clear()
    os.environ.update(environ)
    app(["gateway", *arguments])
