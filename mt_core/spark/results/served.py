"""The messages that the JVM serves: those of one Spark job, each behind its length."""

from __future__ import annotations

from contextlib import suppress
from typing import IO, Any

from pyspark.sql import SparkSession
from pyspark.util import _create_local_socket

from mt_core.errors import EngineError
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jvm_objects import static_member

_LENGTH = 4


class ServedMessages:
    """Reads what PythonRDD.runJob has *served*."""

    def __init__(self, session: SparkSession, served: Any) -> None:
        try:
            self._server: Any = served[2]
            self._file: IO[bytes] = _create_local_socket((served[0], served[1]))  # type: ignore[assignment]
        except Exception:
            with suppress(*SPARK_ERRORS):
                _dismiss(session, served)
            raise

    def next(self) -> bytes | None:
        """Return the next message, None at the end; raises the JVM's error if it could not serve all."""
        head = self._file.read(_LENGTH)
        size = int.from_bytes(head, "big", signed=True) if len(head) == _LENGTH else -1
        if size < 0:
            # The end looks like a JVM that died between two messages; this call distinguishes them.
            self._server.getResult()
            return None
        message = self._file.read(size)
        if len(message) < size:
            self._server.getResult()
            raise EngineError("Spark sent less of a result than it had announced; repeat the statement.")
        return message

    def close(self) -> None:
        """Let the JVM release the messages: those that it has not sent, and those that the object behind
        `_server` still has.
        """
        self._file.close()
        self._server = None


def _dismiss(session: SparkSession, served: Any) -> None:
    """End the thread of the JVM that serves a wave to nobody: it would wait for a reader, with the rows,
    as long as the JVM lives.

    The JVM knocks at its own door: this process may have no file left to open.
    """
    loopback = static_member(session, "java.net.InetAddress.getLoopbackAddress")()
    static_member(session, "java.net.Socket")(loopback, served[0]).close()
