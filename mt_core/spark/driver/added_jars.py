"""Added jars: their classes for every thread that works with Spark, in this JVM and in its successors."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jvm_objects import state_of, static_member

log = logging.getLogger(__name__)


class AddedJars:
    """Gives each thread the classes of all jars: Spark gives them only to the thread that added the jar.

    Any thread.
    """

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
            state_of(session).resourceLoader().addJar(path)
            if path not in self._paths:
                self._paths.append(path)
            self._loader = session._jsparkSession.sharedState().jarClassLoader()

    def ensure(self, session: SparkSession, paths: Iterable[str]) -> None:
        """Load the classes of the jars that were never added, and give this thread those of all;
        raises Spark's errors.
        """
        for path in paths:
            if path not in self._paths:
                self.add(session, path)
        self.lend(session)

    def lend(self, session: SparkSession) -> None:
        """Give this thread the classes of all jars; no call of the JVM if it has them."""
        if not self._paths:
            return
        with self._lock:
            self._renew(session)
        if getattr(self._thread, "loader", None) is not self._loader:
            static_member(session, "java.lang.Thread.currentThread")().setContextClassLoader(self._loader)
            self._thread.loader = self._loader

    def _renew(self, session: SparkSession) -> None:
        """Load the jars into a new JVM, except those whose files no longer exist."""
        jvm: Any = session._jvm
        if self._jvm is jvm:
            return
        for path in self._paths:
            try:
                state_of(session).resourceLoader().addJar(path)
            except SPARK_ERRORS as error:
                log.warning("jar %s was not loaded again: %s", path, error, extra={"action": "jar_lost"})
        self._loader = session._jsparkSession.sharedState().jarClassLoader()
        self._jvm = jvm
