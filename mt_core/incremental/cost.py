"""Cost: whether to apply a change or to recompute the table, decided from the sizes in the metadata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mt_core.base.plural import plural
from mt_core.incremental.strategy import (
    LimitReached,
    Strategy,
    TooManyKeys,
    TooManyRows,
    ValueChanged,
    Way,
)
from mt_core.model.storage import InVain

MOST_CHANGED = 0.5
"""The largest changed share of the sources' bytes for which appends are applied and partitions replaced."""
MOST_JOINED = 0.75
"""The largest share of the sources' bytes that a run with states reads besides the changed rows."""
MOST_REWRITTEN = 0.75
"""A table is rewritten only if its bytes and the change's are at most this share of the sources' bytes.

Of a small table, only the bytes of the change count, since one task writes it."""
MOST_KEYS = 0.2
"""The largest share of the table's rows for which keys are replaced."""
MOST_CHANGED_FOR_KEYS = 0.3
FEW_KEYS = 1000
"""Up to this number, keys are always replaced, because counting them was already most of the work."""
LARGE_TABLE = 1_000_000
"""Tables with fewer rows are rewritten; larger tables are changed in place."""
SMALL_TABLE = 200_000
"""Up to this number of rows, one task groups a table faster than an exchange would."""
MOST_IN_PLACE = 0.1
"""The largest changed share of the sources' bytes, or of the table's rows, for changing it in place."""

CLEARLY_SMALLER = 0.5
"""After a slow change, another is tried if its bytes are at most this share of the slow change's."""
RETRIED_AFTER = 5
"""After this many recomputations, any change is tried, because the cause of the slowness may be gone."""
DOUBTED_AFTER = 1
"""The same limit if only one change was slow, perhaps because of a cold JVM or other load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes of the change, of all sources of the query, and of the table.

    If `upsert` is set, the table's rows are replaced by key, so the size of the table does not matter.
    `joined_bytes` is an estimate of what a run with states reads of the sources besides the changed rows, a
    source that is read several times counted as often.
    """

    changed_bytes: int
    changed_rows: int
    source_bytes: int
    table_bytes: int
    table_rows: int
    upsert: bool = False
    joined_bytes: int = 0

    @property
    def share(self) -> float:
        """The share of the sources' bytes that changed, from 0 to 1."""
        return self.changed_bytes / max(1, self.source_bytes)

    @property
    def in_place(self) -> bool:
        """Whether the table is changed in place: a small change of a large or keyed table."""
        return self._keeps_files and self.share <= MOST_IN_PLACE

    @property
    def most_in_place(self) -> int:
        """The largest number of changed rows for which the table is changed in place.

        It matters after a rewrite, when most rows of the files that differ have not changed.
        """
        return int(MOST_IN_PLACE * self.table_rows) if self._keeps_files else 0

    @property
    def _keeps_files(self) -> bool:
        return self.upsert or self.table_rows >= LARGE_TABLE

    @property
    def small_table(self) -> bool:
        """Whether one task rewrites the table."""
        return self.table_rows <= SMALL_TABLE

    @property
    def most_keys(self) -> int:
        """The largest number of keys for which replacing them is cheaper than a recomputation."""
        return max(FEW_KEYS, int(MOST_KEYS * self.table_rows))


def reason_to_recompute(strategy: Strategy, sizes: Sizes) -> str | None:
    """Return why a recomputation is cheaper than *strategy*, or None if it is not.

    The limits lie between measured points. The number of changed keys matters more than the number of changed
    rows, because each changed key costs its share of a recomputation.
    """
    share = sizes.share
    match strategy.way:
        case Way.APPEND | Way.PARTITIONS if share > MOST_CHANGED:
            return f"{share:.0%} of the sources changed"
        case Way.MERGE if sizes.in_place:
            return None
        case Way.MERGE if sizes.changed_bytes + sizes.table_bytes > MOST_REWRITTEN * sizes.source_bytes:
            return "the table is not much smaller than its sources"
        case _ if strategy.by_key or strategy.way is Way.KEYS:
            return _reason_against_keys(sizes)
        case Way.STAGES if sizes.joined_bytes > MOST_JOINED * sizes.source_bytes:
            joined = sizes.joined_bytes / max(1, sizes.source_bytes)
            return f"the change would be joined with {joined:.0%} of the sources"
        case Way.STAGES if sizes.in_place and strategy.keys:
            return None
        case Way.STAGES if sizes.small_table and share > MOST_REWRITTEN:
            return f"{share:.0%} of the sources changed"
        case Way.STAGES if not sizes.small_table and (
            sizes.changed_bytes + sizes.table_bytes > MOST_REWRITTEN * sizes.source_bytes
        ):
            return "the table is not much smaller than its sources"
        case _:
            return None


def _reason_against_keys(sizes: Sizes) -> str | None:
    if sizes.share > MOST_CHANGED_FOR_KEYS:
        return f"{sizes.share:.0%} of the sources changed"
    if sizes.changed_rows > MOST_KEYS * sizes.table_rows:
        return f"up to {sizes.changed_rows} of {sizes.table_rows} {plural(sizes.table_rows, 'key')} changed"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The duration of a refresh run and the source bytes that it read (None if unknown)."""

    way: Way
    seconds: float
    bytes_read: int | None


def recently_failed(strategy: Strategy, sizes: Sizes, last: InVain | None) -> str | None:
    """Return why *strategy* is not tried again after the failure of *last*, or None to try it."""
    if last is None or last.recomputed >= RETRIED_AFTER or sizes.changed_bytes <= CLEARLY_SMALLER * last.size:
        return None
    if strategy.way in (Way.KEYS, Way.STAGES) and last.what == TooManyKeys.what:
        return "a change of this size touched too many keys"
    if strategy.way is Way.STAGES and last.what == TooManyRows.what:
        return "a change of this size needed too many rows of the sources"
    if strategy.limit is not None and not strategy.only_added and last.what == LimitReached.what:
        return "a change of this size removed rows within the LIMIT"
    if strategy.values and last.what == ValueChanged.what:
        return "a scalar subquery gave another value after a change of this size"
    return None


def slower_than_recomputing(way: Way, changed_bytes: int, runs: Sequence[Measured]) -> str | None:
    """Return why *way* is expected to be slower than a recomputation, or None if it is not.

    *runs* are the last runs of the table, newest first.
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
