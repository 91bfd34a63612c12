"""The JVM process of Spark, as PySpark's gateway launches it."""

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
# The line that follows the one with the reason.
_NO_JVM = "Error: Could not create the Java Virtual Machine."


def launch_process(conf: SparkConf, log_file: Path) -> Any:
    """Return the py4j gateway of a new JVM that writes to *log_file*;
    raises EngineError with the JVM's own reason.
    """
    # Every error of py4j and PySpark reaches its caller; their logs would repeat it on the terminal.
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
    """The arguments with which PySpark starts the JVM. PySpark passes the gateway's whole environment, whose
    settings can hold tokens and passwords. SQL can read the environment of the JVM, which therefore gets no
    settings of the gateway.

    The JVM ends with the thread that starts it."""

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "env":
            value = {key: text for key, text in value.items() if not key.startswith(OURS)}
        if name == "preexec_fn" and sys.platform == "linux":
            value = partial(_with_parent_death, value, ctypes.CDLL(None).prctl)
        super().__setitem__(name, value)


def _with_parent_death(prepare: Callable[[], object], prctl: Callable[[int, int], int]) -> None:
    """Let the kernel kill this process when its parent dies: it would see the end of its input only
    when it runs.
    """
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    prepare()


def end_process(gateway: Any) -> None:
    """End the JVM of *gateway*, whatever its state."""
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    process: subprocess.Popen[bytes] = gateway.proc
    # The JVM of PySpark ends by itself when its standard input does.
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Refuse records that py4j logs to the root logger, without a name."""
    return Path(record.pathname).parent.name != "py4j"


def _reason(log_file: Path, start: int) -> str:
    """Return the line of the JVM's log, from *start* on, that says why it ended:
    its first exception, else its last line.
    """
    with log_file.open("rb") as log:
        log.seek(start)
        text = log.read()[-_LOG_TAIL:].decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if _NO_JVM in lines[1:]:
        return lines[lines.index(_NO_JVM) - 1]
    reasons = [line for line in lines if line.startswith("Exception in thread") or "Error: " in line]
    return (reasons or lines[-1:] or [""])[0].removeprefix('Exception in thread "main" ')
