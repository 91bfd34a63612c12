"""Parts of partitions: how the rows of a partition come by several jobs,
none of which has all of them in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.driver.jobs import handle_of
from mt_core.spark.driver.jvm_objects import own_class

FIRST_BYTES = 8 * 2**20
"""The first part of a partition in the first job, so that the first rows are there early."""
_PACKAGE = "freshtable.results"
# What ends the messages of each part.
_END, _MORE = b"\0", b"\1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSizes:
    """The bytes of the *first* part of a partition, and of *all* parts of one job; None:
    as many as fit the memory of Spark.
    """

    first: int = FIRST_BYTES
    all: int | None = None


DEFAULT_SIZES = PartSizes()


class Parts:
    """How far the rows of a query have come whose partitions come in parts.

    Each job has parts of consecutive partitions. The rows come in order, so that of a job's parts only
    those up to the first one are used whose partition has more: a further job computes this partition
    and those behind it again.
    """

    def __init__(self, function: Any, partitions: Any, sizes: PartSizes, room: int) -> None:
        self._function, self._partitions, self._sizes, self._room = function, partitions, sizes, room
        self.done, self.cut = 0, False
        # What has come of the partition that is not done.
        self._messages, self._bytes = 0, 0
        self._has_begun, self._is_first, self._alone = False, True, False

    def fitting(self, size: int, received: int) -> int:
        """Return how many of *size* partitions the next job computes, after *received* bytes
        of those before.
        """
        if self._alone:
            return 1
        average = received // self.done if self.done else 0
        return max(min(size, self._room // max(average, 1)), 1)

    def next(self, size: int) -> Any:
        """Return the RDD with the next parts, of which a job computes *size*."""
        self.cut, self._is_first = False, not self._has_begun
        # No partition at all is a job too.
        share = self._room // max(size, 1)
        most = min(share, self._sizes.first) if self._is_first else share
        return self._function.of(self._partitions, self.done, self._messages, self._bytes, most)

    def take(self, message: bytes) -> bool:
        """Count a message; return whether it has rows. No message after one that sets `cut` is of use."""
        self._has_begun = True
        if message == _END:
            self.done, self._messages, self._bytes, self._alone = self.done + 1, 0, 0, False
        elif message == _MORE:
            # A second part is as large as there is room.
            self.cut, self._alone = True, not self._is_first
        else:
            self._messages, self._bytes = self._messages + 1, self._bytes + len(message)
            return True
        return False


def parts_of(session: SparkSession, plan: Any, partitions: Any, sizes: PartSizes) -> Parts | None:
    """Return how the rows of *plan*, in *partitions* of Arrow messages, come in parts.

    None if a partition that is computed again may have other rows.
    """
    room = own_class(session, f"{_PACKAGE}.Repeatable").room(handle_of(session.sparkContext).spark, plan)
    function = own_class(session, f"{_PACKAGE}.PartOfPartition")
    return Parts(function, partitions, sizes, sizes.all or room) if room else None
