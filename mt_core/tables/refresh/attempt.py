"""One attempt at a claimed run.

The attempt publishes, fails, is cancelled, returns the run to the queue, or stops silently. It follows the
protocol of docs/design/refresh-protocol.md; the steps up to the close are those of `Publication`. `steps()`
yields the name of every step just before the step runs, so that a caller can observe it, and tests can stop
the process there. A worker that was fenced, or has lost its claim on the run, stops silently and writes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mt_core.errors import ClusterLost, EngineUnavailable, MtError, StorageMissing
from mt_core.model.run import Loss, RunStatus
from mt_core.tables.engine import RefreshEngine
from mt_core.tables.refresh.outcome import ClaimLost, RunEnded, failed
from mt_core.tables.refresh.publication import Publication, Steps
from mt_core.tables.runs.ledger import ClaimedRun, Ledger


class Attempt:
    """Carries out a claimed run that publishes once, in one thread."""

    def __init__(
        self, claimed: ClaimedRun, *, ledger: Ledger, engine: RefreshEngine, on_end: Callable[[], None]
    ) -> None:
        self._claimed, self._ledger, self._engine, self._on_end = claimed, ledger, engine, on_end

    def steps(self) -> Steps:
        """Carry out the run; yield the name of each step before it runs."""
        publication = Publication(self._claimed, ledger=self._ledger, engine=self._engine, note=self._note)
        yield from to_end(publication, publication.publish(), self._ledger, self._release, self._on_end)

    def _note(self, changes: Mapping[str, Any]) -> None:
        if not self._ledger.note(self._claimed, changes):
            raise ClaimLost

    def _release(self, lost: EngineUnavailable) -> None:
        self._ledger.release(self._claimed, str(lost), kind_of(lost))


def to_end(
    publication: Publication,
    work: Steps,
    ledger: Ledger,
    release: Callable[[EngineUnavailable], None],
    on_end: Callable[[], None],
) -> Steps:
    """Carry out *work*, the publishes of a run, and record how the run ended.

    If Spark was lost, *release* is called to return the run to the queue. *on_end* is called unless the claim
    was lost.
    """
    try:
        yield from _ended(publication, work, ledger)
    except ClaimLost:
        return
    except EngineUnavailable as lost:
        yield "release"
        release(lost)
    on_end()


def _ended(publication: Publication, work: Steps, ledger: Ledger) -> Steps:
    try:
        yield from work
    except RunEnded as end:
        yield from _finish(publication, end, ledger)
    except StorageMissing as error:
        yield "end"
        ledger.end(publication.claimed, RunStatus.FAILED, {"error": str(error)})
    except EngineUnavailable:
        raise
    except MtError as error:
        yield from _finish(publication, failed(error, publication.claimed.table.identifier), ledger)


def _finish(publication: Publication, end: RunEnded, ledger: Ledger) -> Steps:
    end = yield from publication.close(end)
    yield "end"
    if not ledger.end(publication.claimed, end.status, end.changes):
        raise ClaimLost


def kind_of(lost: EngineUnavailable) -> Loss:
    """Return the kind of loss that the engine's error *lost* means."""
    if isinstance(lost, ClusterLost):
        return Loss.OF_CLUSTER
    return Loss.ALONE if lost.alone else Loss.SHARED
