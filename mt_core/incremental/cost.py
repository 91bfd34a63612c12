"""Cost: whether a change is applied, or the table recomputed, from what metadata says of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mt_core.base.plural import plural
from mt_core.incremental.strategy import Strategy, TooManyKeys, ValueChanged, Way
from mt_core.model.storage import InVain

MOST_CHANGED = 0.5
"""Share of the sources' bytes up to which appended rows are read apart from the others,
and partitions replaced.
"""
MOST_REWRITTEN = 0.75
"""Share of the sources' bytes up to which changed rows and the table, which is rewritten,
cost less than the sources.
"""
MOST_KEYS = 0.2
"""Share of the table's rows up to which keys are replaced."""
MOST_CHANGED_FOR_KEYS = 0.3
FEW_KEYS = 1000
"""Keys up to which their number does not speak for a recomputation:
to know it took most of what the change takes.
"""
LARGE_TABLE = 1_000_000
"""Rows of a table up to which it is rewritten sooner than changed in place."""
SMALL_TABLE = 200_000
"""Rows of a table up to which one task groups them in less time than an exchange of them takes."""
MOST_IN_PLACE = 0.1
"""Share of the sources' bytes up to which a large table is changed in place."""

CLEARLY_SMALLER = 0.5
"""Share of the bytes of a change that took too long up to which another change is tried."""
RETRIED_AFTER = 5
"""Recomputations after which a change is tried again whatever its size:
what made the last one slow may have gone.
"""
DOUBTED_AFTER = 1
"""The same where only the last change was slow: it may have been the first in a JVM,
or other work beside it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Bytes and rows of what changed, of all sources that the query reads, and of the table itself.

    `upsert`: rows of the table are replaced by key, so that its size does not count.
    """

    changed_bytes: int
    changed_rows: int
    source_bytes: int
    table_bytes: int
    table_rows: int
    upsert: bool = False

    @property
    def share(self) -> float:
        """How much of the sources changed."""
        return self.changed_bytes / max(1, self.source_bytes)

    @property
    def in_place(self) -> bool:
        """Whether files of the table stay: little changed, and it is large or its rows
        are replaced by key.
        """
        return (self.upsert or self.table_rows >= LARGE_TABLE) and self.share <= MOST_IN_PLACE

    @property
    def small_table(self) -> bool:
        """Whether one task rewrites the table."""
        return self.table_rows <= SMALL_TABLE

    @property
    def most_keys(self) -> int:
        """Up to how many keys, once they are counted, replacing them is cheaper than a recomputation."""
        return max(FEW_KEYS, int(MOST_KEYS * self.table_rows))


def dearer_than_recomputing(strategy: Strategy, sizes: Sizes) -> str | None:
    """Return why a recomputation is cheaper than *strategy*, None if the strategy is cheaper.

    The limits lie between measured points: how many keys change counts more than how many rows,
    since each key that changed costs its part of a recomputation.
    """
    share = sizes.share
    match strategy.way:
        case Way.APPEND | Way.PARTITIONS if share > MOST_CHANGED:
            return f"{share:.0%} of the sources changed"
        case Way.MERGE | Way.SIGNED if sizes.in_place:
            return None
        case Way.MERGE | Way.SIGNED if (
            sizes.changed_bytes + sizes.table_bytes > MOST_REWRITTEN * sizes.source_bytes
        ):
            return "the table is not much smaller than its sources"
        case Way.KEYS if share > MOST_CHANGED_FOR_KEYS:
            return f"{share:.0%} of the sources changed"
        case Way.KEYS if sizes.changed_rows > MOST_KEYS * sizes.table_rows:
            return (
                f"up to {sizes.changed_rows} of {sizes.table_rows} {plural(sizes.table_rows, 'key')} changed"
            )
        case _:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a run of the table took: seconds, and bytes of the sources that it read,
    None if that is not known.
    """

    way: Way
    seconds: float
    bytes_read: int | None


def in_vain_again(strategy: Strategy, sizes: Sizes, last: InVain | None) -> str | None:
    """Return why *strategy* is not tried after what the *last* try found, None if it is."""
    if last is None or last.recomputed >= RETRIED_AFTER or sizes.changed_bytes <= CLEARLY_SMALLER * last.size:
        return None
    if strategy.way is Way.KEYS and last.what == TooManyKeys.what:
        return "a change of this size touched too many keys"
    if strategy.values and last.what == ValueChanged.what:
        return "a scalar subquery gave another value after a change of this size"
    return None


def slower_than_recomputing(way: Way, changed_bytes: int, runs: Sequence[Measured]) -> str | None:
    """Return why *way* would take longer than a recomputation, by the last *runs* of the table, newest first;
    None if not.
    """
    applied = [run for run in runs if run.way is way]
    recomputed = next((run for run in runs if run.way is Way.RECOMPUTE), None)
    if not applied or recomputed is None or way is Way.NOTHING:
        return None
    last = applied[0]
    smaller = last.bytes_read is not None and changed_bytes <= CLEARLY_SMALLER * last.bytes_read
    since = sum(run.way is Way.RECOMPUTE for run in runs[: runs.index(last)])
    again = len(applied) > 1 and applied[1].seconds > recomputed.seconds
    if last.seconds <= recomputed.seconds or smaller or since >= (RETRIED_AFTER if again else DOUBTED_AFTER):
        return None
    return f"the last change by {way} took {_seconds(last)}, a recomputation {_seconds(recomputed)}"


def _seconds(run: Measured) -> str:
    return f"{run.seconds:.{0 if run.seconds >= 10 else 1}f} s"
