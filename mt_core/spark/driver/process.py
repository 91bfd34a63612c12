"""The JVM process of Spark, launched by PySpark's gateway."""

from __future__ import annotations

import ctypes
import logging
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger

from mt_core.errors import EngineError

END_TIMEOUT_S = 20
# The prefix of the gateway's settings in the environment.
OURS = "FRESHTABLE_"
_LOG_TAIL = 40_000
_PR_SET_PDEATHSIG = 1
# This line follows the line with the reason.
_NO_JVM = "Error: Could not create the Java Virtual Machine."


def launch_process(conf: SparkConf, log_file: Path) -> Any:
    """Start a JVM that logs to *log_file* and return its py4j gateway.

    Raises EngineError with the reason from the JVM's log.
    """
    # py4j and PySpark raise every error that they log, so their logs would only repeat it on the terminal.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_py4j)
    with log_file.open("ab") as log:
        start = log.tell()
        try:
            kwargs = _ProcessArguments(stdout=log, stderr=subprocess.STDOUT)
            return launch_gateway(conf, popen_kwargs=kwargs)  # type: ignore[no-untyped-call]
        except (PySparkException, OSError) as cause:
            raise EngineError(_reason(log_file, start) or str(cause)) from cause


class _ProcessArguments(dict[str, Any]):
    """The arguments with which PySpark starts the JVM. They are changed when PySpark sets them.

    PySpark passes on the gateway's whole environment. SQL can read the environment of the JVM, so the
    gateway's own settings, which may contain tokens and passwords, are removed. On Linux, the JVM is killed
    when the thread that started it ends.
    """

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "env":
            value = {key: text for key, text in value.items() if not key.startswith(OURS)}
        if name == "preexec_fn" and sys.platform == "linux":
            value = partial(_with_parent_death, value, ctypes.CDLL(None).prctl)
        super().__setitem__(name, value)


def _with_parent_death(prepare: Callable[[], object], prctl: Callable[[int, int], int]) -> None:
    """Have the kernel kill this process when its parent thread ends.

    The JVM also exits at the end of its standard input, but only if it still works well enough to read it.
    """
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    prepare()


def end_process(gateway: Any) -> None:
    """End the JVM of *gateway*, regardless of its state."""
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    process: subprocess.Popen[bytes] = gateway.proc
    # PySpark's JVM exits at the end of its standard input.
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Return False for records that py4j logs directly to the root logger."""
    return Path(record.pathname).parent.name != "py4j"


def _reason(log_file: Path, start: int) -> str:
    """Return the line of the JVM's log, from offset *start*, that says why the JVM exited.

    It is the first exception or, if there is none, the last line.
    """
    with log_file.open("rb") as log:
        log.seek(start)
        text = log.read()[-_LOG_TAIL:].decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if _NO_JVM in lines[1:]:
        return lines[lines.index(_NO_JVM) - 1]
    reasons = [line for line in lines if line.startswith("Exception in thread") or "Error: " in line]
    return (reasons or lines[-1:] or [""])[0].removeprefix('Exception in thread "main" ')
