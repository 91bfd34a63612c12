"""The JVM process in which Spark runs, as PySpark's gateway launches it."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger

from mt_core.errors import EngineError

END_TIMEOUT_S = 20
# Settings of the gateway in the environment.
OURS = "FRESHTABLE_"
_LOG_TAIL = 40_000
# The line that follows the one with the reason.
_NO_JVM = "Error: Could not create the Java Virtual Machine."


def launch_process(conf: Mapping[str, str], log_file: Path) -> Any:
    """Return the py4j gateway of a new JVM which writes to *log_file*; raises EngineError with the JVM's own reason."""
    _silence()
    with log_file.open("ab") as log:
        written = log.tell()
        try:
            kwargs = _ProcessArguments(stdout=log, stderr=subprocess.STDOUT)
            return launch_gateway(spark_conf(conf), popen_kwargs=kwargs)  # type: ignore[no-untyped-call]
        except (PySparkException, OSError) as cause:
            raise EngineError(_reason(_read(log_file, written)) or str(cause)) from cause


class _ProcessArguments(dict[str, Any]):
    """The arguments with which PySpark starts the JVM. It sets the environment to all of ours, in which settings of the gateway
    can have tokens and passwords; SQL can read the JVM's, so it gets what is not the gateway's alone."""

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "env":
            value = {key: text for key, text in value.items() if not key.startswith(OURS)}
        super().__setitem__(name, value)


def end_process(gateway: Any) -> None:
    """End the JVM of *gateway*, in whatever state it is."""
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


def spark_conf(values: Mapping[str, str]) -> SparkConf:
    """Return *values* as PySpark takes them."""
    made = SparkConf(loadDefaults=False)
    made.setAll(list(values.items()))
    return made


def _silence() -> None:
    """Stop the logs of py4j and PySpark: every error reaches its caller, and they would repeat it on the terminal."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    # Some of it goes to the root logger without a name.
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def _read(log_file: Path, start: int) -> str:
    with log_file.open("rb") as log:
        log.seek(start)
        return log.read()[-_LOG_TAIL:].decode(errors="replace")


def _reason(log: str) -> str:
    """Return the line of the JVM's *log* that says why it ended: its first exception, else its last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    if _NO_JVM in lines[1:]:
        return lines[lines.index(_NO_JVM) - 1]
    told = [line for line in lines if line.startswith("Exception in thread") or "Error: " in line]
    return (told or lines[-1:] or [""])[0].removeprefix('Exception in thread "main" ')
