"""The shares of a table's rows, each with the source vector of the run that wrote it.

Pure functions of main's history.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from mt_core.errors import Incomparable
from mt_core.model.partition import NOTHING, WHOLE, DoubtedPartitions, PartitionSpec, Scope
from mt_core.model.storage import Snapshot
from mt_core.model.table import TableIdentifier
from mt_core.tables.engine import SourceVector


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The rows of *scope*, except those of *besides*, which later runs wrote.

    `sources` is the source vector of the rows, as JSON. `obstacle` is the reason why they cannot be compared
    with the query, or None if they can. If `doubted` is True, the rows may differ from those of the query at
    that vector.
    """

    scope: Scope
    besides: Scope = NOTHING
    sources: str
    obstacle: str | None = None
    doubted: bool = False

    def __str__(self) -> str:
        """The partitions as text."""
        if self.scope.whole and not self.besides.specs:
            return str(self.scope)
        return str(DoubtedPartitions(scope=self.scope, besides=self.besides))

    @property
    def vector(self) -> SourceVector:
        return SourceVector.from_json(json.loads(self.sources))


def shares_of(table: TableIdentifier, history: Iterable[Snapshot], fingerprint: str) -> tuple[Share, ...]:
    """Return the shares of a table from *history*: main and its ancestors, newest first, read lazily.

    Commits of other writers have no share, because their rows belong to no query. Raises Incomparable if
    there is no share.
    """
    shares: list[Share] = []
    written: frozenset[PartitionSpec] = frozenset()
    for snapshot in history:
        if snapshot.created:
            break
        if not snapshot.describes_rows or snapshot.run_id is None or snapshot.scope is None:
            continue
        share = Share(
            scope=WHOLE, sources=snapshot.sources or "[]", obstacle=_obstacle(table, snapshot, fingerprint)
        )
        if snapshot.scope.specs is None:
            shares.append(replace(share, besides=Scope(written)))
            break
        new = frozenset(spec for spec in snapshot.scope.specs if not Scope(written).covers(spec))
        besides = frozenset(spec for spec in written if Scope(new).overlaps(spec))
        if new:
            _add(shares, replace(share, scope=Scope(new), besides=Scope(besides)))
        written |= new
    if not shares:
        raise Incomparable(
            f"{table} has no rows of a refresh to compare with its query; "
            f"ALTER MATERIALIZED TABLE {table} REFRESH it first.",
            table=str(table),
        )
    return tuple(shares)


def foreign_commit(history: Iterable[Snapshot]) -> str | None:
    """Return the newest snapshot that changed rows if another writer committed it, or None."""
    newest = next((snapshot for snapshot in history if not snapshot.replace), None)
    return None if newest is None or newest.created or newest.run_id is not None else newest.snapshot_id


def with_doubted(
    shares: Iterable[Share], doubted: DoubtedPartitions, sources: str, late: frozenset[PartitionSpec]
) -> tuple[Share, ...]:
    """Return *shares* with the partitions in doubt as a separate share, at the vector *sources*.

    This is the vector of the refresh after which they were in doubt. All other partitions have the query's
    rows at that vector or at their own, except the *late* partitions, whose rows are those at their own
    vector.
    """
    if not doubted:
        return tuple(shares)
    besides = Scope(late).union(doubted.besides)
    result = [Share(scope=doubted.scope, besides=besides, sources=sources, doubted=True)]
    for share in shares:
        if share.scope.specs is not None:
            remaining = [spec for spec in share.scope.specs if spec in late or not doubted.covers(spec)]
        elif doubted.scope.specs is not None:
            result.append(replace(share, besides=share.besides.union(doubted.scope)))
            continue
        else:
            remaining = [spec for spec in besides.specs or () if not share.besides.covers(spec)]
        if remaining:
            result.append(replace(share, scope=Scope.of(remaining)))
    return tuple(result)


def _obstacle(table: TableIdentifier, snapshot: Snapshot, fingerprint: str) -> str | None:
    """Return why the rows of a refresh cannot be compared, or None if they can."""
    if snapshot.fingerprint != fingerprint:
        return (
            f"{table} has rows of another definition than its present one; "
            f"ALTER MATERIALIZED TABLE {table} REFRESH computes them again."
        )
    if not snapshot.pinned:
        return (
            f"{table} cannot be compared with its query: its last refresh could not "
            f"read all sources at fixed versions; EXPLAIN REFRESH {table} says why, "
            f"and ALTER MATERIALIZED TABLE {table} REFRESH computes its rows again."
        )
    return None


def _add(shares: list[Share], share: Share) -> None:
    """Add a share, or merge it with one at the same vector if no later run overwrote part of either."""
    for number, each in enumerate(shares):
        if (
            (each.sources, each.obstacle) == (share.sources, share.obstacle)
            and not each.besides.specs
            and not share.besides.specs
        ):
            shares[number] = replace(each, scope=each.scope.union(share.scope))
            return
    shares.append(share)
