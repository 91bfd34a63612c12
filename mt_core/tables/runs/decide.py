"""Decides what a refresh must do, and why: pure, from main's history and the versions of the sources.

A scope is left out only if nothing can have changed: the nearest ancestor of main which wrote it is ours, carries the current
source vector and the current fingerprint, and nobody else has committed since.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mt_core.model.partition import WHOLE, PartitionSpec, Scope
from mt_core.model.run import RunKind
from mt_core.model.storage import Snapshot
from mt_core.tables.engine import SourceVector

REFRESH, SKIP, SUSPENDED = "refresh", "skip", "suspended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is left to refresh (`scope` None: nothing) and the reason, in words for users."""

    scope: Scope | None
    reason: str

    @property
    def name(self) -> str:
        return SKIP if self.scope is None else REFRESH


def decide(
    *, kind: RunKind, scope: Scope, vector: SourceVector, fingerprint: str, history: Iterable[Snapshot]
) -> Decision:
    """Return the part of *scope* that has to be refreshed; *history* is main and its ancestors, newest first, read lazily."""
    if kind is RunKind.MANUAL:
        return Decision(scope=scope, reason="asked for by hand")
    blocker = _never_skips(vector)
    if blocker:
        return Decision(scope=scope, reason=blocker)
    walk = _Walk(history)
    if scope.specs is None:
        reason = walk.why_changed(None, vector, fingerprint)
        return Decision(scope=WHOLE, reason=reason) if reason else Decision(scope=None, reason="sources unchanged")
    changed = {spec: reason for spec in sorted(scope.specs) if (reason := walk.why_changed(spec, vector, fingerprint))}
    if not changed:
        return Decision(scope=None, reason="sources unchanged")
    return Decision(scope=Scope.of(changed), reason=_summary(changed, len(scope.specs)))


def _never_skips(vector: SourceVector) -> str | None:
    if vector.unstable:
        return f"the query is not stable: {vector.unstable}"
    if vector.unversioned:
        return f"source {vector.unversioned[0]} has no versions"
    return None


def _summary(changed: Mapping[PartitionSpec, str], asked: int) -> str:
    reasons = sorted(set(changed.values()))
    left_out = asked - len(changed)
    text = "; ".join(reasons)
    return f"{text} ({left_out} of {asked} partitions unchanged)" if left_out else text


class _Walk:
    """Walks down main's history once, remembering what it has passed."""

    def __init__(self, history: Iterable[Snapshot]) -> None:
        self._rest: Iterator[Snapshot] = iter(history)
        self._seen: list[Snapshot] = []

    def _snapshots(self) -> Iterator[Snapshot]:
        yield from self._seen
        for snapshot in self._rest:
            self._seen.append(snapshot)
            yield snapshot

    def why_changed(self, spec: PartitionSpec | None, vector: SourceVector, fingerprint: str) -> str | None:
        """Return why *spec* (None: the whole table) has to be refreshed, or None if it is unchanged."""
        for snapshot in self._snapshots():
            if snapshot.replace:
                continue
            if snapshot.created:
                return "never refreshed before" if spec is None else "new partition"
            if snapshot.run_id is None or snapshot.scope is None:
                return f"somebody else wrote snapshot {snapshot.snapshot_id}"
            if _wrote_all_of(snapshot.scope, spec):
                return _difference(snapshot, vector, fingerprint)
            if spec is None or snapshot.scope.overlaps(spec):
                return "refreshed in parts since"
        return "its last refresh is no longer in the table's history"


def _wrote_all_of(written: Scope, spec: PartitionSpec | None) -> bool:
    return written.whole if spec is None else written.covers(spec)


def _difference(snapshot: Snapshot, vector: SourceVector, fingerprint: str) -> str | None:
    if snapshot.fingerprint != fingerprint:
        return "the definition or its options changed"
    then = {source["name"]: source for source in json.loads(snapshot.sources or "[]")}
    now = {source["name"]: source for source in vector.to_json()}
    changed = sorted(
        name for name in then.keys() | now.keys() if comparable(then.get(name)) != comparable(now.get(name))
    )
    if not changed:
        return None
    return f"{changed[0]} changed" if len(changed) == 1 else f"{changed[0]} and {len(changed) - 1} more sources changed"


def comparable(source: Mapping[str, Any] | None) -> Any:
    """Return a source entry without what does not tell versions apart: `at`, the snapshot id that pins it."""
    if source is None or source["version"] is None:
        return source
    return {**source, "version": {key: value for key, value in source["version"].items() if key != "at"}}
