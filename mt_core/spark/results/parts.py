"""Parts of partitions: a large partition is transferred by several jobs, with a bounded part in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jobs import handle_of
from mt_core.spark.driver.jvm_objects import own_class

FIRST_BYTES = 8 * 2**20
"""The size of a partition's first part, in bytes. It is small, so that the first rows are received early."""
_PACKAGE = "freshtable.results"
# Markers after the messages of each part: the end of the partition, or more rows to follow.
_END, _MORE = b"\0", b"\1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSizes:
    """Size limits in bytes: of the *first* part of a partition, and of *all* parts of one job.

    If *all* is None, the limit is what fits in Spark's memory.
    """

    first: int = FIRST_BYTES
    all: int | None = None


DEFAULT_SIZES = PartSizes()


class Parts:
    """The progress of a query whose partitions are transferred in parts.

    Each job computes one part of several consecutive partitions. Rows must be received in order, so the
    parts of a job are used up to the first incomplete partition. The next job computes that partition and
    the following ones again.
    """

    def __init__(self, function: Any, partitions: Any, sizes: PartSizes, room: int) -> None:
        self._function, self._partitions, self._sizes, self._room = function, partitions, sizes, room
        self.done, self.cut = 0, False
        # The messages and bytes received of the incomplete partition.
        self._messages, self._bytes = 0, 0
        self._has_begun, self._is_first, self._alone = False, True, False

    def fitting(self, size: int, received: int) -> int:
        """Return how many partitions, up to *size*, the next job computes.

        *received* is the number of bytes received so far.
        """
        if self._alone:
            return 1
        average = received // self.done if self.done else 0
        return max(min(size, self._room // max(average, 1)), 1)

    def next(self, size: int) -> Any:
        """Return the RDD with the next parts. The job computes *size* of them."""
        self.cut, self._is_first = False, not self._has_begun
        # A query without partitions also runs a job.
        share = self._room // max(size, 1)
        most = min(share, self._sizes.first) if self._is_first else share
        return self._function.of(self._partitions, self.done, self._messages, self._bytes, most)

    def take(self, message: bytes) -> bool:
        """Count a message and return whether it has rows.

        Messages after a message that sets `cut` must be ignored.
        """
        self._has_begun = True
        if message == _END:
            self.done, self._messages, self._bytes, self._alone = self.done + 1, 0, 0, False
        elif message == _MORE:
            # Give all available memory to the second part.
            self.cut, self._alone = True, not self._is_first
        else:
            self._messages, self._bytes = self._messages + 1, self._bytes + len(message)
            return True
        return False


def parts_of(session: SparkSession, plan: Any, partitions: Any, sizes: PartSizes) -> Parts | None:
    """Return the progress of a transfer in parts of *plan*, with Arrow messages in *partitions*.

    Return None if the plan is not repeatable, because recomputing a partition could return other rows.
    """
    room = own_class(session, f"{_PACKAGE}.Repeatable").room(handle_of(session.sparkContext).spark, plan)
    function = own_class(session, f"{_PACKAGE}.PartOfPartition")
    return Parts(function, partitions, sizes, sizes.all or room) if room else None
