"""One incarnation of the Spark driver: its JVM process, and the first session in this JVM."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from mt_core.errors import ConfigError, EngineError, EngineUnavailable, MtError
from mt_core.spark.driver import conf, jars
from mt_core.spark.driver.callbacks import serve_callbacks
from mt_core.spark.driver.failures import SPARK_ERRORS, translate
from mt_core.spark.driver.file_systems import check_catalog
from mt_core.spark.driver.jobs import RunningJobs
from mt_core.spark.driver.jvm_objects import own_class
from mt_core.spark.driver.operator_jar import operator_jar
from mt_core.spark.driver.process import end_process, launch_process

# Exit codes of a JVM that is out of memory: first Spark's, then the JVM's own.
_NO_MEMORY = (52, 3)
# The time, in seconds, that such a JVM needs to exit.
_ENDS_WITHIN_S = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Incarnation:
    """A JVM that runs Spark.

    `generation` is the number of this JVM among those of the driver, and `jobs` are its running jobs.
    """

    generation: int
    session: SparkSession
    gateway: Any = field(repr=False)
    process: subprocess.Popen[bytes] = field(repr=False)
    jobs: RunningJobs = field(repr=False, default_factory=RunningJobs)

    def usable(self) -> bool:
        """Return whether the JVM answers and its SparkContext is running."""
        try:
            return self.process.poll() is None and not self.session.sparkContext._jsc.sc().isStopped()
        except (*SPARK_ERRORS, AttributeError):
            return False

    @property
    def ran_out_of_memory(self) -> bool:
        """True if the JVM has exited because it was out of memory."""
        return self.process.returncode in _NO_MEMORY

    def end(self) -> bool:
        """Kill an unusable JVM and return whether it was out of memory.

        Waits before killing it, because a JVM that is out of memory exits with an exit code that says so.
        """
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_ENDS_WITHIN_S)
        self.process.kill()
        self.process.wait()
        return self.ran_out_of_memory

    def stop(self) -> None:
        """Stop Spark, then end the process."""
        with suppress(*SPARK_ERRORS):
            self.session.stop()
        discard(self.gateway)


def launch(settings: conf.DriverSettings, generation: int) -> Incarnation:
    """Start a JVM and Spark in it.

    Raises ConfigError with Spark's reason, or EngineError if another attempt may succeed.
    """
    conf.prepare_files(settings)
    full_conf = conf.spark_conf(settings)
    operators = operator_jar(settings.environ)
    full_conf["spark.jars"] = ",".join(filter(None, [str(operators), full_conf.get("spark.jars")]))
    full_conf.update(conf.default_files(full_conf))
    full_conf.update(jars.jar_conf(settings.jars_dir, full_conf))
    try:
        gateway = launch_process(_pyspark_conf(conf.launch_conf(full_conf)), settings.log_file)
    except EngineError as cause:
        if jars.local_jars(settings.jars_dir) is None and jars.UNRESOLVED.search(cause.message):
            raise jars.missing(settings.jars_dir, cause.message) from cause
        raise ConfigError(_start_failure(settings, cause)) from cause
    try:
        session = _start_spark(settings, full_conf, gateway)
    except BaseException:
        discard(gateway)
        raise
    return Incarnation(generation=generation, session=session, gateway=gateway, process=gateway.proc)


def _start_spark(settings: conf.DriverSettings, full_conf: Mapping[str, str], gateway: Any) -> SparkSession:
    try:
        serve_callbacks(gateway)
        session = SparkSession(SparkContext(gateway=gateway, conf=_pyspark_conf(full_conf)))
    except SPARK_ERRORS as cause:
        error = translate(cause)
        kind = EngineError if isinstance(error, EngineUnavailable) else ConfigError
        raise kind(_start_failure(settings, error)) from cause
    try:
        check_catalog(session)
        _answer_promptly(session, gateway)
        _register_dialects(session)
        session.sql(f"CREATE NAMESPACE IF NOT EXISTS {conf.CATALOG}.{conf.NAMESPACE}")
    except SPARK_ERRORS as cause:
        # The catalog's database or server may be down temporarily.
        raise EngineError(_start_failure(settings, translate(cause))) from cause
    return session


def _answer_promptly(session: SparkSession, gateway: Any) -> None:
    """Disable Nagle's algorithm at the JVM's end of each new connection.

    Without this, every answer of more than 8 KiB is delayed by 40 ms.
    """
    gateway.java_gateway_server.addListener(own_class(session, "freshtable.driver.PromptAnswers")())


def _register_dialects(session: SparkSession) -> None:
    """Register our JDBC dialects, for databases whose errors Spark does not recognize.

    This is done at start-up, because Spark selects a dialect only by URL. Any statement with a URL, such as
    CREATE TABLE … USING jdbc, may be the first to need one.
    """
    own_class(session, "freshtable.jdbc.SqliteDialect").register()


def _pyspark_conf(values: Mapping[str, str]) -> SparkConf:
    return SparkConf(loadDefaults=False).setAll(list(values.items()))


def _start_failure(settings: conf.DriverSettings, reason: MtError) -> str:
    return f"Spark did not start: {reason.message.rstrip('.')}. Its log is {settings.log_file}."


def discard(gateway: Any) -> None:
    """End a JVM in any state and clear PySpark's references to it, which would block the next JVM."""
    server = getattr(SparkContext._active_spark_context, "_accumulatorServer", None)
    if server is not None:
        server.shutdown()
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
    end_process(gateway)
