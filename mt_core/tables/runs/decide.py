"""Decides what a refresh must do, and why: a pure function of main's history and the source versions.

A scope is skipped only if nothing can have changed. The nearest ancestor of main that wrote the scope must be
a refresh of this table with the current source vector and fingerprint. No other writer may have committed
since.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from mt_core.base.plural import plural
from mt_core.incremental.strategy import Way
from mt_core.model.partition import WHOLE, PartitionSpec, Scope
from mt_core.model.run import ReasonCode
from mt_core.model.storage import COLUMNS, COMMITTED, PIN, SCHEMA, Snapshot
from mt_core.tables.engine import SourceVector

REFRESH, SKIP, SUSPENDED, CONTINUOUS = "refresh", "skip", "suspended", "continuous"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The scope to refresh (None: nothing), the reason that users see, and its kind.

    `base` is a snapshot with all rows of the current definition, set if only sources have changed since:
    their changes can be applied to it.
    """

    scope: Scope | None
    reason: str
    code: ReasonCode
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
        return Decision(scope=scope, reason=asked, code=ReasonCode.REQUESTED)
    if vector.unstable:
        reason = f"the query is not stable: {vector.unstable}"
        return Decision(scope=scope, reason=reason, code=ReasonCode.UNSTABLE_QUERY)
    if vector.unversioned:
        reason = f"source {vector.unversioned[0]} has no versions"
        return Decision(scope=scope, reason=reason, code=ReasonCode.UNVERSIONED_SOURCE)
    walk = _Walk(rest=iter(history), doubted=doubted)
    if scope.specs is None:
        why = walk.why_changed(None, vector, fingerprint)
        if why is None:
            return _UNCHANGED
        return Decision(scope=WHOLE, reason=_text([why]), code=why.code, base=walk.base(fingerprint))
    changed = {
        spec: why for spec in sorted(scope.specs) if (why := walk.why_changed(spec, vector, fingerprint))
    }
    if not changed:
        return _UNCHANGED
    text, unchanged = _text(changed.values()), len(scope.specs) - len(changed)
    if unchanged:
        text = f"{text} ({unchanged} of {len(scope.specs)} partitions unchanged)"
    codes = {why.code for why in changed.values()}
    code = codes.pop() if len(codes) == 1 else ReasonCode.SEVERAL
    return Decision(scope=Scope.of(changed), reason=text, code=code)


_UNCHANGED = Decision(scope=None, reason="sources unchanged", code=ReasonCode.SOURCES_UNCHANGED)


@dataclass(frozen=True, slots=True)
class _Why:
    """Why rows have to be refreshed: as text, or as the names of the sources that have changed."""

    code: ReasonCode
    text: str = ""
    sources: tuple[str, ...] = ()


_NEVER_REFRESHED = _Why(ReasonCode.NEVER_REFRESHED, "never refreshed before")
_NEW_PARTITION = _Why(ReasonCode.NEW_PARTITION, "new partition")
_ROWS_IN_DOUBT = _Why(ReasonCode.ROWS_IN_DOUBT, "its rows are in doubt")
_IN_PARTS = _Why(ReasonCode.IN_PARTS, "refreshed in parts since")
_HISTORY_LOST = _Why(ReasonCode.HISTORY_LOST, "its last refresh is no longer in the table's history")
_REDEFINED = _Why(ReasonCode.DEFINITION_CHANGED, "the definition or its options changed")


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
        """Return why *spec* (None: the whole table) has to be refreshed; None if no refresh is needed."""
        for snapshot in self._snapshots():
            if not snapshot.describes_rows:
                continue
            if snapshot.created:
                return _NEVER_REFRESHED if spec is None else _NEW_PARTITION
            if snapshot.run_id is None or snapshot.scope is None:
                text = f"another writer committed snapshot {snapshot.snapshot_id}"
                return _Why(ReasonCode.OTHER_WRITER, text)
            if snapshot.scope.whole or (spec is not None and snapshot.scope.covers(spec)):
                applied = snapshot.strategy not in (None, Way.RECOMPUTE)
                doubt = _ROWS_IN_DOUBT if self.doubted and applied else None
                return _difference(snapshot, vector, fingerprint) or doubt
            if spec is None or snapshot.scope.overlaps(spec):
                return _IN_PARTS
        return _HISTORY_LOST

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


def since(history: Iterable[Snapshot], snapshot_id: str | None) -> Iterator[Snapshot]:
    """Yield the snapshots of *history*, newest first, that have followed the snapshot *snapshot_id*."""
    return takewhile(lambda snapshot: snapshot.snapshot_id != snapshot_id, history)


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


def _difference(snapshot: Snapshot, vector: SourceVector, fingerprint: str) -> _Why | None:
    if snapshot.fingerprint != fingerprint:
        return _REDEFINED
    changed = tuple(_changed(json.loads(snapshot.sources or "[]"), vector.to_json()))
    return _Why(ReasonCode.SOURCES_CHANGED, sources=changed) if changed else None


def _text(reasons: Collection[_Why]) -> str:
    """Return the reasons of all partitions as one string, with the number of changed sources."""
    texts = {reason.text for reason in reasons if reason.text}
    sources = sorted({source for reason in reasons for source in reason.sources})
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
