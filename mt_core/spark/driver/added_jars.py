"""Added jars: their classes for every thread that works with Spark, in this JVM and in the one that follows it."""

from __future__ import annotations

import logging
import threading
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.failures import SPARK_ERRORS

log = logging.getLogger(__name__)


class AddedJars:
    """Spark gives the classes of a jar to the thread alone that added it; any other has to be given them. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paths: list[str] = []
        self._jvm: Any = None
        self._loader: Any = None
        self._thread = threading.local()

    def add(self, session: SparkSession, path: str) -> None:
        """Load the classes of a jar; raises Spark's errors as they are."""
        with self._lock:
            self._renew(session)
            _load(session, path)
            if path not in self._paths:
                self._paths.append(path)
            self._loader = session._jsparkSession.sharedState().jarClassLoader()

    def lend(self, session: SparkSession) -> None:
        """Let this thread find the classes of all jars; no call of the JVM if it does already."""
        if not self._paths:
            return
        with self._lock:
            self._renew(session)
        if getattr(self._thread, "loader", None) is not self._loader:
            _jvm_of(session).java.lang.Thread.currentThread().setContextClassLoader(self._loader)
            self._thread.loader = self._loader

    def _renew(self, session: SparkSession) -> None:
        """Load the jars into a JVM that does not know them; one that is gone from its place is left out."""
        jvm = _jvm_of(session)
        if self._jvm is jvm:
            return
        for path in self._paths:
            try:
                _load(session, path)
            except SPARK_ERRORS as error:
                log.warning("jar %s was not loaded again: %s", path, error, extra={"action": "jar_lost"})
        self._loader = session._jsparkSession.sharedState().jarClassLoader()
        self._jvm = jvm


def _load(session: SparkSession, path: str) -> None:
    session._jsparkSession.sessionState().resourceLoader().addJar(path)


def _jvm_of(session: SparkSession) -> Any:
    return session._jvm
