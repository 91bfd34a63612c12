"""Jars added at run time: visible to every thread that calls Spark, even after a restart of the JVM."""

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
    """The added jars of a driver. Thread-safe.

    Spark sets the class loader of an added jar only for the thread that added it. It must therefore be set
    for other threads too.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paths: list[str] = []
        self._jvm: Any = None
        self._loader: Any = None
        self._thread = threading.local()

    def add(self, session: SparkSession, path: str) -> None:
        """Add a jar to the session's JVM. Raises Spark's errors untranslated."""
        with self._lock:
            self._renew(session)
            state_of(session).resourceLoader().addJar(path)
            if path not in self._paths:
                self._paths.append(path)
            self._loader = session._jsparkSession.sharedState().jarClassLoader()

    def ensure(self, session: SparkSession, paths: Iterable[str]) -> None:
        """Add the jars of *paths* that are new, then make all added jars visible to this thread.

        Raises Spark's errors untranslated.
        """
        for path in paths:
            if path not in self._paths:
                self.add(session, path)
        self.lend(session)

    def lend(self, session: SparkSession) -> None:
        """Make all added jars visible to this thread. Does not call the JVM if they already are."""
        if not self._paths:
            return
        with self._lock:
            self._renew(session)
        if getattr(self._thread, "loader", None) is not self._loader:
            static_member(session, "java.lang.Thread.currentThread")().setContextClassLoader(self._loader)
            self._thread.loader = self._loader

    def _renew(self, session: SparkSession) -> None:
        """Add the jars to a new JVM again. Jars whose files no longer exist are logged and skipped."""
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
