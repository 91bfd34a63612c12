"""The shares of a table's rows, each with the source vector that the run which wrote it has read: pure, from main's history."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from mt_core.errors import Incomparable
from mt_core.model.partition import NOTHING, WHOLE, PartitionSpec, Scope
from mt_core.model.storage import Snapshot
from mt_core.model.table import TableIdentifier
from mt_core.tables.engine import SourceVector


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The rows of *scope*, without those of *besides*, which later runs wrote; `sources` is the JSON of the vector."""

    scope: Scope
    besides: Scope = NOTHING
    sources: str

    @property
    def vector(self) -> SourceVector:
        return SourceVector.from_json(json.loads(self.sources))


def shares_of(table: TableIdentifier, history: Iterable[Snapshot], fingerprint: str) -> tuple[Share, ...]:
    """Return the shares of a table from *history*, which is main and its ancestors, newest first, read lazily.

    What others committed is no share: its rows belong to no query. Raises Incomparable where no vector is known.
    """
    shares: list[Share] = []
    written: frozenset[PartitionSpec] = frozenset()
    for snapshot in history:
        if snapshot.created:
            break
        if not snapshot.tells or snapshot.run_id is None or snapshot.scope is None:
            continue
        _check(table, snapshot, fingerprint)
        if snapshot.scope.specs is None:
            shares.append(Share(scope=WHOLE, besides=Scope(written), sources=snapshot.sources or "[]"))
            break
        new = frozenset(spec for spec in snapshot.scope.specs if not Scope(written).covers(spec))
        besides = frozenset(spec for spec in written if Scope(new).overlaps(spec))
        if new:
            _add(shares, Share(scope=Scope(new), besides=Scope(besides), sources=snapshot.sources or "[]"))
        written |= new
    if not shares:
        raise Incomparable(
            f"{table} has no rows of a refresh to compare with its query; ALTER MATERIALIZED TABLE {table} REFRESH it first.",
            table=str(table),
        )
    return tuple(shares)


def foreign_commit(history: Iterable[Snapshot]) -> str | None:
    """Return the newest snapshot of a table with other rows than the one before, if another writer committed it."""
    newest = next((snapshot for snapshot in history if not snapshot.replace), None)
    return None if newest is None or newest.created or newest.run_id is not None else newest.snapshot_id


def _check(table: TableIdentifier, snapshot: Snapshot, fingerprint: str) -> None:
    if snapshot.fingerprint != fingerprint:
        raise Incomparable(
            f"{table} has rows of another definition than its present one; ALTER MATERIALIZED TABLE {table} REFRESH computes "
            "them again.",
            table=str(table),
        )
    if not snapshot.pinned:
        raise Incomparable(
            f"{table} cannot be compared with its query: its last refresh could not read all sources at fixed versions; "
            f"EXPLAIN REFRESH {table} says why.",
            table=str(table),
        )


def _add(shares: list[Share], share: Share) -> None:
    """Add a share, as part of one with the same vector if no other run wrote a part of either."""
    for number, each in enumerate(shares):
        if each.sources == share.sources and not each.besides.specs and not share.besides.specs:
            shares[number] = replace(each, scope=each.scope.union(share.scope))
            return
    shares.append(share)
