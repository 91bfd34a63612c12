"""One attempt at a claimed run.

The attempt publishes, fails, is cancelled, returns the run to the queue, or stops silently. It follows the
protocol of docs/design/refresh-protocol.md; the steps up to the close are those of `Publication`. `steps()`
yields the name of every step just before the step runs, so that a caller can observe it, and tests can stop
the process there. A worker that was fenced, or has lost its claim on the run, stops silently and writes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from mt_core.errors import ClusterLost, EngineUnavailable, MtError, StorageMissing
from mt_core.model.run import Loss, RunStatus
from mt_core.tables.engine import RefreshEngine
from mt_core.tables.refresh.outcome import ClaimLost, RunEnded, failed
from mt_core.tables.refresh.publication import Publication
from mt_core.tables.refresh.step_times import OnStep, Steps, StepTimes, unobserved
from mt_core.tables.runs.ledger import ClaimedRun, Ledger

OnEnd = Callable[[RunStatus | None], None]
"""Called with the status with which a run ended, or None if it was returned to the queue."""


class Attempt:
    """Carries out a claimed run that publishes once, in one thread."""

    def __init__(
        self,
        claimed: ClaimedRun,
        *,
        ledger: Ledger,
        engine: RefreshEngine,
        on_end: OnEnd,
        on_step: OnStep = unobserved,
    ) -> None:
        self._claimed, self._ledger, self._engine, self._on_end = claimed, ledger, engine, on_end
        self._times = StepTimes(ledger.clock, on_step)

    def steps(self) -> Steps:
        """Carry out the run; yield the name of each step before it runs."""
        publication = Publication(self._claimed, ledger=self._ledger, engine=self._engine, note=self._note)
        ending = Ending(publication, self._ledger, self._times, self._release, self._on_end)
        return self._times.measured(ending.after(publication.publish()))

    def _note(self, changes: Mapping[str, Any]) -> None:
        if not self._ledger.note(self._claimed, changes):
            raise ClaimLost

    def _release(self, lost: EngineUnavailable) -> None:
        self._ledger.release(self._claimed, str(lost), kind_of(lost))


@dataclass(frozen=True, slots=True)
class Ending:
    """Records how the publishes of a run ended, with the *times* of their steps.

    If Spark was lost, *release* is called to return the run to the queue. *on_end* is called unless the claim
    was lost.
    """

    publication: Publication
    ledger: Ledger
    times: StepTimes
    release: Callable[[EngineUnavailable], None]
    on_end: OnEnd

    def after(self, work: Steps) -> Steps:
        """Carry out *work* and record how the run ended."""
        status = None
        try:
            status = yield from self._ended(work)
        except ClaimLost:
            return
        except EngineUnavailable as lost:
            yield "release"
            self.release(lost)
        self.on_end(status)

    def _ended(self, work: Steps) -> Generator[str, None, RunStatus]:
        try:
            yield from work
        except RunEnded as end:
            return (yield from self._finish(end))
        except StorageMissing as error:
            yield "end"
            return self._end(RunEnded(status=RunStatus.FAILED, changes={"error": str(error)}))
        except EngineUnavailable:
            raise
        except MtError as error:
            identifier = self.publication.claimed.table.identifier
            return (yield from self._finish(failed(error, identifier)))
        raise AssertionError("the publishes of a run end by raising")

    def _finish(self, end: RunEnded) -> Generator[str, None, RunStatus]:
        end = yield from self.publication.close(end)
        yield "end"
        return self._end(end)

    def _end(self, end: RunEnded) -> RunStatus:
        claimed = self.publication.claimed
        steps = {**claimed.run.steps, **self.times.of_parts()}
        if not self.ledger.end(claimed, end.status, {**end.changes, "steps": steps}):
            raise ClaimLost
        return end.status


def kind_of(lost: EngineUnavailable) -> Loss:
    """Return the kind of loss that the engine's error *lost* means."""
    if isinstance(lost, ClusterLost):
        return Loss.OF_CLUSTER
    return Loss.ALONE if lost.alone else Loss.SHARED
