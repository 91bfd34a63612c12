"""Decides what a refresh must do, and why: a pure function of main's history and the source versions.

A scope is skipped only if nothing can have changed. The nearest ancestor of main that wrote the scope must be
a refresh of this table with the current source vector and fingerprint. No other writer may have committed
since.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mt_core.base.plural import plural
from mt_core.incremental.strategy import Way
from mt_core.model.partition import WHOLE, PartitionSpec, Scope
from mt_core.model.storage import COLUMNS, COMMITTED, PIN, SCHEMA, Snapshot
from mt_core.tables.engine import SourceVector

REFRESH, SKIP, SUSPENDED, CONTINUOUS = "refresh", "skip", "suspended", "continuous"
# A reason, or the names of the sources that have changed.
_Why = str | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The scope to refresh (None: nothing), and the reason that users see.

    `base` is a snapshot with all rows of the current definition, set if only sources have changed since:
    their changes can be applied to it.
    """

    scope: Scope | None
    reason: str
    base: Snapshot | None = None

    @property
    def name(self) -> str:
        return SKIP if self.scope is None else REFRESH


def decide(
    *,
    asked: str | None,
    scope: Scope,
    vector: SourceVector,
    fingerprint: str,
    history: Iterable[Snapshot],
    doubted: bool = False,
) -> Decision:
    """Return the part of *scope* that has to be refreshed.

    *history* is main and its ancestors, newest first; it is read lazily. If *asked* is set, it is the reason
    for refreshing all of *scope*. If the table's rows are *doubted*, rows that a run computed by applying
    changes are recomputed.
    """
    if asked is not None:
        return Decision(scope=scope, reason=asked)
    if vector.unstable:
        return Decision(scope=scope, reason=f"the query is not stable: {vector.unstable}")
    if vector.unversioned:
        return Decision(scope=scope, reason=f"source {vector.unversioned[0]} has no versions")
    walk = _Walk(rest=iter(history), doubted=doubted)
    if scope.specs is None:
        why = walk.why_changed(None, vector, fingerprint)
        if not why:
            return Decision(scope=None, reason="sources unchanged")
        return Decision(scope=WHOLE, reason=_text([why]), base=walk.base(fingerprint))
    changed = {
        spec: why for spec in sorted(scope.specs) if (why := walk.why_changed(spec, vector, fingerprint))
    }
    if not changed:
        return Decision(scope=None, reason="sources unchanged")
    text, unchanged = _text(changed.values()), len(scope.specs) - len(changed)
    if unchanged:
        text = f"{text} ({unchanged} of {len(scope.specs)} partitions unchanged)"
    return Decision(scope=Scope.of(changed), reason=text)


@dataclass(slots=True, kw_only=True)
class _Walk:
    """A buffered walk over main's history, which is read once, and only as far as necessary."""

    rest: Iterator[Snapshot]
    doubted: bool
    read: list[Snapshot] = field(default_factory=list)

    def _snapshots(self) -> Iterator[Snapshot]:
        yield from self.read
        for snapshot in self.rest:
            self.read.append(snapshot)
            yield snapshot

    def why_changed(self, spec: PartitionSpec | None, vector: SourceVector, fingerprint: str) -> _Why | None:
        """Return why *spec* (None: the whole table) has to be refreshed.

        The result is None or an empty tuple if no refresh is needed.
        """
        for snapshot in self._snapshots():
            if not snapshot.describes_rows:
                continue
            if snapshot.created:
                return "never refreshed before" if spec is None else "new partition"
            if snapshot.run_id is None or snapshot.scope is None:
                return f"another writer committed snapshot {snapshot.snapshot_id}"
            if snapshot.scope.whole or (spec is not None and snapshot.scope.covers(spec)):
                applied = snapshot.strategy not in (None, Way.RECOMPUTE)
                doubt = "its rows are in doubt" if self.doubted and applied else None
                return _difference(snapshot, vector, fingerprint) or doubt
            if spec is None or snapshot.scope.overlaps(spec):
                return "refreshed in parts since"
        return "its last refresh is no longer in the table's history"

    def base(self, fingerprint: str) -> Snapshot | None:
        """Return the newest snapshot that changed rows, or None if changes cannot be applied to it.

        They can be if one run of this definition wrote the whole table at pinned versions.
        """
        newest = next((snapshot for snapshot in self._snapshots() if snapshot.describes_rows), None)
        if newest is None or newest.scope is None or not newest.scope.whole or not newest.pinned:
            return None
        return newest if newest.fingerprint == fingerprint else None


def only_compacted(history: Iterable[Snapshot], since: str | None) -> bool:
    """Return whether only compactions have followed the snapshot *since*, so that main contains its rows.

    *history* is sorted newest first.
    """
    for snapshot in history:
        if snapshot.snapshot_id == since or not snapshot.replace:
            return snapshot.snapshot_id == since
    return False


def all_computed(history: Iterable[Snapshot]) -> bool:
    """Return whether every row of main was computed from all source rows, never by applying a change."""
    for snapshot in history:
        if snapshot.describes_rows and snapshot.strategy not in (None, Way.RECOMPUTE):
            return False
        if snapshot.describes_rows and (snapshot.scope is None or snapshot.scope.whole):
            return True
    return False


def has_same(then: SourceVector, now: SourceVector) -> bool:
    """Return whether two vectors have the same rows, as far as their versions show."""
    return not _changed(then.to_json(), now.to_json())


def _changed(then: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]]) -> list[str]:
    before, after = ({source["name"]: source for source in sources} for sources in (then, now))
    return sorted(
        name for name in before.keys() | after.keys() if not _is_same(before.get(name), after.get(name))
    )


def _difference(snapshot: Snapshot, vector: SourceVector, fingerprint: str) -> _Why:
    if snapshot.fingerprint != fingerprint:
        return "the definition or its options changed"
    return tuple(_changed(json.loads(snapshot.sources or "[]"), vector.to_json()))


def _text(reasons: Collection[_Why]) -> str:
    """Return the reasons of all partitions as one string, with the number of changed sources."""
    texts = {reason for reason in reasons if isinstance(reason, str)}
    sources = sorted({source for reason in reasons if not isinstance(reason, str) for source in reason})
    if sources:
        more = len(sources) - 1
        texts.add(
            f"{sources[0]} and {more} more {plural(more, 'source')} changed"
            if more
            else f"{sources[0]} changed"
        )
    return "; ".join(sorted(texts))


def _is_same(then: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> bool:
    """Return whether two entries of a source have the same rows, as far as their versions show.

    The pinned snapshot and the commit time do not distinguish versions, nor do columns that the query does
    not read. The columns that it reads are unknown if one of the entries lacks their hash; the schema counts
    then.
    """
    both = [entry for entry in (then, now) if entry is not None and entry["version"] is not None]
    known = all(COLUMNS in entry["version"] for entry in both if "uuid" in entry["version"])
    ignored = {PIN, COMMITTED, SCHEMA if known else COLUMNS}
    return bool(_without(then, ignored) == _without(now, ignored))


def _without(source: Mapping[str, Any] | None, left_out: Collection[str]) -> Any:
    if source is None or source["version"] is None:
        return source
    return {
        **source,
        "version": {key: value for key, value in source["version"].items() if key not in left_out},
    }
