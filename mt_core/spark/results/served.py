"""The result messages of one Spark job, which the JVM serves on a socket with length prefixes."""

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
    """Reads the messages that PythonRDD.runJob serves."""

    def __init__(self, session: SparkSession, served: Any) -> None:
        try:
            self._server: Any = served[2]
            self._file: IO[bytes] = _create_local_socket((served[0], served[1]))  # type: ignore[assignment]
        except Exception:
            with suppress(*SPARK_ERRORS):
                _dismiss(session, served)
            raise

    def next(self) -> bytes | None:
        """Return the next message, or None at the end. Raises the JVM's error if serving failed."""
        head = self._file.read(_LENGTH)
        size = int.from_bytes(head, "big", signed=True) if len(head) == _LENGTH else -1
        if size < 0:
            # The end looks like a JVM that exited between two messages. getResult distinguishes the two
            # cases.
            self._server.getResult()
            return None
        message = self._file.read(size)
        if len(message) < size:
            self._server.getResult()
            raise EngineError("Spark sent only a part of a result; repeat the statement.")
        return message

    def close(self) -> None:
        """Release the messages in the JVM: those not sent, and those that the server object references."""
        self._file.close()
        self._server = None


def _dismiss(session: SparkSession, served: Any) -> None:
    """End the JVM thread that serves a wave without a reader, which would retain the rows and wait forever.

    The JVM connects to itself, because this process may have run out of file descriptors.
    """
    loopback = static_member(session, "java.net.InetAddress.getLoopbackAddress")()
    static_member(session, "java.net.Socket")(loopback, served[0]).close()
