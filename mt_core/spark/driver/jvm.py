"""One incarnation of the Spark driver: its JVM process, and the first session in it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from mt_core.errors import ConfigError, EngineError, EngineUnavailable, MtError
from mt_core.spark import jars
from mt_core.spark.driver import conf
from mt_core.spark.driver.failures import SPARK_ERRORS, translate
from mt_core.spark.driver.file_systems import check_warehouse
from mt_core.spark.process import end_process, launch_process, spark_conf


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Incarnation:
    """A JVM that runs Spark; `generation` counts them."""

    generation: int
    session: SparkSession
    gateway: Any = field(repr=False)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = self.gateway.proc
        return process

    def usable(self) -> bool:
        """Return whether the JVM answers and its SparkContext has not stopped."""
        try:
            return self.process.poll() is None and not self.session.sparkContext._jsc.sc().isStopped()
        except (*SPARK_ERRORS, AttributeError):
            return False

    def stop(self) -> None:
        """Stop Spark, then end the process."""
        with suppress(*SPARK_ERRORS):
            self.session.stop()
        self.discard()

    def discard(self) -> None:
        """End the process, whatever its state, and make room for another one in this Python process."""
        _forget()
        end_process(self.gateway)


def launch(settings: conf.DriverSettings, generation: int) -> Incarnation:
    """Start a JVM with Spark in it; raises ConfigError with Spark's reason, EngineError for what another try may mend."""
    conf.prepare_files(settings)
    wanted = conf.spark_conf(settings)
    wanted.update(jars.jar_conf(settings.jars_dir, wanted))
    gateway = _launch_process(settings, wanted)
    try:
        context = SparkContext(gateway=gateway, conf=spark_conf(wanted))
    except SPARK_ERRORS as cause:
        error = _give_up(gateway, cause)
        lost = isinstance(error, EngineUnavailable)
        raise (EngineError if lost else ConfigError)(_start_failure(settings, error.message)) from cause
    session = SparkSession(context)
    try:
        check_warehouse(session)
    except ConfigError as error:
        _give_up(gateway, error)
        raise
    try:
        session.sql(f"CREATE NAMESPACE IF NOT EXISTS {conf.CATALOG}.{conf.NAMESPACE}")
    except SPARK_ERRORS as cause:
        # The catalog's database may be away for a while.
        raise EngineError(_start_failure(settings, _give_up(gateway, cause).message)) from cause
    return Incarnation(generation=generation, session=session, gateway=gateway)


def _give_up(gateway: Any, cause: BaseException) -> MtError:
    """End a JVM that is of no use, and return why."""
    error = translate(cause)
    _forget()
    end_process(gateway)
    return error


def _launch_process(settings: conf.DriverSettings, wanted: Mapping[str, str]) -> Any:
    try:
        return launch_process(conf.launch_conf(wanted), settings.log_file)
    except EngineError as cause:
        if jars.local_jars(settings.jars_dir) is None and jars.unresolved(cause.message):
            raise jars.missing(settings.jars_dir, cause.message) from cause
        raise ConfigError(_start_failure(settings, cause.message)) from cause


def _start_failure(settings: conf.DriverSettings, reason: str) -> str:
    return f"Spark did not start: {reason.rstrip('.')}. Its log is {settings.log_file}."


def _forget() -> None:
    """Clear what PySpark keeps of a JVM in class attributes; else no other one can be started from this process."""
    context = SparkContext._active_spark_context
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.shutdown()
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
