"""The publishes of one claim: the steps decide, write and publish, and then close.

A refresh publishes once; a continuous run publishes many batches under one claim. Only a publish and a close
decide anything in the storage, and each moves main (`mt_core.model.fence`). So each step either finds the
state that the previous step left, or detects that another process has changed it. If this is a newer claim,
the run ends silently. If another writer or a changed source is the cause, the run *decides* again, up to
`MAX_RESTARTS` times, because a table that another writer changes continually could never be published. The
last step, *close*, excludes later commits of the run; it is needed only if there may be any.

The results of a step are attributes until the next step uses them: source versions, scope and main from
*decide*, the snapshot from *write*. A publish of only some partitions, or of changes only, succeeds only if
main still contains the rows from which it was computed. A further step, such as an audit of the staged rows,
fits between *staged* and *publish*.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Never

from mt_core.errors import (
    Canceled,
    CommitConflict,
    CommitUnknown,
    EngineError,
    QueryFailed,
    SourcesChanged,
    StorageMissing,
)
from mt_core.incremental.stages.stage_plan import StagePlan
from mt_core.incremental.strategy import (
    STATES_FAILED,
    UNREAD,
    CountsDiffer,
    NotApplied,
    ResultUnchanged,
    Strategy,
    Way,
)
from mt_core.model.fence import Fenced, RefreshWriter, carried_out
from mt_core.model.partition import DoubtedPartitions, Scope
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.storage import (
    WANTS_STATES,
    InVain,
    MetadataChange,
    Snapshot,
    StorageMetadata,
    batch_summary,
    in_vain_summary,
    late_summary,
    publish_name,
    run_summary,
    state_summary,
    states_property,
    tiny_states,
)
from mt_core.tables.engine import (
    Maintenance,
    RefreshEngine,
    SourceVector,
    Staged,
    Write,
)
from mt_core.tables.refresh.change_plan import ChangePlan, ChangesUntil, plan_change, read_summary
from mt_core.tables.refresh.cycles import refuse_new_cycle
from mt_core.tables.refresh.late_data import late_data
from mt_core.tables.refresh.outcome import ClaimLost, RunEnded, failed, is_of_query, timed_out
from mt_core.tables.refresh.refresh_state import refresh_state
from mt_core.tables.refresh.step_times import Steps
from mt_core.tables.refresh.written_rows import written_rows
from mt_core.tables.runs.decide import decide, has_same, only_compacted, since
from mt_core.tables.runs.ledger import CANCELLED, ClaimedRun, Ledger
from mt_core.tables.runs.losses import losses_of
from mt_core.tables.services import query_of

MAX_RESTARTS = 3
# Errors that another way to compute the rows would meet as well.
_OF_THE_TABLE = (CommitConflict, SourcesChanged, StorageMissing)
Note = Callable[[Mapping[str, Any]], None]
log = logging.getLogger(__name__)


class _Restart(Exception):
    """Raised to decide again, because the sources or main have changed."""


class Publication:
    """Publishes rows of a claimed table, in one thread.

    `publish` and `close` yield the name of each step just before the step runs. `publish` ends by raising
    RunEnded, and either raises ClaimLost if the claim was lost. *note* records facts about the run.
    """

    def __init__(
        self,
        claimed: ClaimedRun,
        *,
        ledger: Ledger,
        engine: RefreshEngine,
        note: Note,
    ) -> None:
        self.claimed = claimed
        self._ledger, self._engine, self._note = ledger, engine, note
        self._table, self._identifier = claimed.table, claimed.table.identifier
        self.writer = RefreshWriter(number=claimed.run.claim)
        # Whether a publish may still be on its way: that of an earlier claim that was lost, or one of this
        # run without a response. A publish or close excludes it.
        self._must_close = claimed.follows_lost
        # Whether a publish of this run was sent without a response.
        self._is_sent = False
        # The main on which the rows are based.
        self._base: str | None = None
        # The metadata that write read; publish tries it first.
        self._known: StorageMetadata | None = None
        # The source versions, and a time before they were read.
        self._vector, self._began_at = SourceVector(sources=()), ledger.clock.now()
        self._scope: Scope = claimed.run.scope
        # The late partitions that this run leaves to later runs, at its vector; None if they are unknown.
        self._left: Scope | None = None
        # The partitions in doubt before this run writes.
        self._doubted: DoubtedPartitions | None = None
        # How changes are applied to the rows that main had when decide read it; None for a recomputation.
        self.maintenance: Maintenance | None = None
        self._plan = ChangePlan()
        # The snapshot whose rows main had then, and the tiny states of these rows.
        self._described: Snapshot | None = None
        self._tiny: Mapping[str, str] = {}
        self._in_vain: InVain | None = None
        self._reason, self._restarts = "", 0
        # The number of the next batch; None for a run that publishes once.
        self.batch: int | None = None
        # The definition at the time of the claim applies.
        self._query = query_of(claimed.table.definition)

    @property
    def way(self) -> Way:
        """The strategy of the last publish."""
        return Way.RECOMPUTE if self.maintenance is None else self.maintenance.strategy.way

    def publish(self) -> Steps:
        """Publish the current rows of the query; if the run has batches, they become the next batch."""
        self._restarts, self._is_sent = 0, False
        if lost := losses_of(self._run).too_many:
            raise RunEnded(
                status=RunStatus.FAILED, changes={"error": f"Refresh of {self._identifier} {lost}."}
            )
        while True:
            try:
                yield from self._decide()
                write, staged = yield from self._write()
                yield from self._swap_main(write, staged)
            except _Restart:
                self._restarts += 1

    def close(self, end: RunEnded) -> Generator[str, None, RunEnded]:
        """Exclude further commits of this run and return how it ended.

        A publish whose response was lost may turn out to have succeeded.
        """
        if self._must_close and end.status is not RunStatus.SUCCEEDED:
            try:
                yield from self._swap("close", self.writer.close)
            except RunEnded as published:
                return published
            except StorageMissing:
                pass  # nothing can be published to a missing table
        return end

    @property
    def _run(self) -> RefreshRun:
        return self.claimed.run

    # ------------------------------------------------------------------------------------------------- decide

    def _decide(self) -> Steps:
        yield "decide"
        if (run := self._ledger.held(self.claimed)) is None:
            raise ClaimLost
        if run.cancel_requested:
            self._end_if_withdrawn()
        self._began_at, self._vector = self._ledger.clock.now(), self._first_vector()
        metadata = self._engine.metadata.load(self._identifier)
        self._base = self._main_of(metadata)
        with self._cancelable():
            late = late_data(self.claimed, self._ledger, self._engine, metadata, self._vector)
        self._left, self._doubted, scope = late.left, late.doubted, self._run.scope.union(late.taken)
        decision = decide(
            asked=self._run.asked,
            scope=scope,
            vector=self._vector,
            fingerprint=self._run.fingerprint or "",
            history=self._engine.metadata.ancestors(metadata),
            doubted=self._table.doubt is not None,
        )
        with self._cancelable():
            until = ChangesUntil(
                reader=self._engine.changes,
                job_id=self._run.job_id or "",
                query=self._query,
                vector=self._vector,
            )
            self._plan = plan_change(self._ledger.registry, until, self._table, metadata, decision=decision)
        self.maintenance, how = self._plan.maintenance, self._plan.reason
        self._described = decision.base
        self._tiny = {} if decision.base is None else tiny_states(metadata.properties, decision.base)
        if self.maintenance is not None and self._has_rows_of(self.maintenance.base, metadata):
            self.maintenance = replace(self.maintenance, base=self._base)
        self._in_vain = None if decision.base is None else decision.base.in_vain
        self._reason = "; ".join(part for part in (decision.reason, how, late.message) if part is not None)
        facts = {"scope": scope, "decision": decision.name, "doubted": late.doubted}
        why = {"reason": self._reason, "reason_code": decision.code}
        self._note({"vector": self._vector.to_json(), **facts, **why})
        if decision.scope is None:
            if self._must_close:
                yield from self._close_unchanged()
            raise RunEnded(status=RunStatus.SKIPPED)
        self._scope = decision.scope

    def _end_if_withdrawn(self) -> None:
        if self._ledger.withdrawn(self._run.run_id):
            raise RunEnded(status=RunStatus.CANCELED, changes=CANCELLED)

    def _first_vector(self) -> SourceVector:
        """Return the current source vector.

        Ends the run if the query cannot be analysed or reads its own table.
        """
        try:
            vector = self._engine.sources.read_vector(self._query)
            refuse_new_cycle(self._ledger.registry, self._engine.sources, self._identifier, vector)
            return vector
        except QueryFailed as error:
            end = failed(error, self._identifier)
            changes = {**end.changes, "broken": is_of_query(error)}
            raise RunEnded(status=end.status, changes=changes) from error

    def _main_of(self, metadata: StorageMetadata) -> str:
        """Return main, unless the run has been published or fenced."""
        self._end_if_published(metadata)
        self._refuse_earlier(metadata)
        if metadata.main is None:
            raise EngineError(f"{self._identifier} has no snapshot; DROP it and create it again.")
        return metadata.main

    def _refuse_earlier(self, metadata: StorageMetadata) -> None:
        try:
            self.writer.refuse_earlier(metadata)
        except Fenced:
            raise ClaimLost from None

    def _close_unchanged(self) -> Steps:
        """Close the table while main is what the decision was based on."""

        def change(metadata: StorageMetadata) -> MetadataChange:
            if metadata.main != self._base:
                self._restart(metadata)
            return self.writer.close(metadata)

        yield from self._swap("close", change)
        self._must_close = False

    def _restart(self, metadata: StorageMetadata) -> Never:
        if self._restarts >= MAX_RESTARTS:
            raise EngineError(
                f"{self._identifier} was changed by another writer during each of {MAX_RESTARTS + 1} tries "
                f"(now at snapshot {metadata.main}); stop the other writer and refresh again."
            )
        raise _Restart

    def _has_rows_of(self, snapshot_id: str | None, metadata: StorageMetadata) -> bool:
        return metadata.main == snapshot_id or only_compacted(
            self._engine.metadata.ancestors(metadata), snapshot_id
        )

    # -------------------------------------------------------------------------------------------------- write

    def _write(self) -> Generator[str, None, tuple[Write, Staged]]:
        yield "write"
        write, staged = self._stage()
        try:
            pinned = self._check_unpinned()
        except _Restart:
            self._engine.metadata.discard(staged)
            raise
        yield "staged"
        self._note({**written_rows(staged.snapshot), "pinned": pinned, "vector": self._vector.to_json()})
        self._known = staged.metadata
        return write, staged

    def _stage(self) -> tuple[Write, Staged]:
        try:
            with self._cancelable():
                return self._maintained() or self._with_states() or self._staged(self._rows())
        except (CommitConflict, SourcesChanged) as error:
            if self._restarts >= MAX_RESTARTS:
                raise
            raise _Restart from error

    def _with_states(self) -> tuple[Write, Staged] | None:
        """Stage all rows with the states of the query's stages.

        Returns None if the run keeps no states, or if computing or writing them fails: that may be no fault
        of the query, which is then computed alone.
        """
        if self._stages is None:
            return None
        try:
            return self._staged(self._rows())
        except _OF_THE_TABLE:
            raise
        except (NotApplied, QueryFailed, EngineError) as error:
            log.warning(
                "the states of %s were not kept: %s",
                self._identifier,
                error,
                extra={"action": "states_failed", "table": str(self._identifier)},
            )
            self._note({"reason": f"{self._reason}; without states since these failed: {error}"})
            self._plan = replace(self._plan, stages=None)
            self._in_vain = InVain(what=STATES_FAILED, size=0)
            return None

    @contextmanager
    def _cancelable(self) -> Iterator[None]:
        """End the run if its Spark job was cancelled by the requesters or because of the timeout."""
        try:
            yield
        except Canceled as error:
            self._end_if_withdrawn()
            if self._ledger.is_overdue(self.claimed):
                raise timed_out(self._run, self._identifier) from error
            raise

    def _staged(self, write: Write) -> tuple[Write, Staged]:
        return write, self._engine.writes.write(write)

    def _maintained(self) -> tuple[Write, Staged] | None:
        """Stage the changes only.

        Returns None if main does not contain the rows to which the changes apply, or if applying them fails
        or is too expensive.
        """
        if self.maintenance is not None and self.maintenance.base == self._base:
            try:
                return self._staged(self._rows())
            except ResultUnchanged:
                self.maintenance = replace(
                    self.maintenance, strategy=Strategy(way=Way.NOTHING, reason=UNREAD)
                )
                self._note({"reason": f"{self._reason}; {UNREAD}"})
                return self._staged(self._rows())
            except NotApplied as error:
                self._in_vain = InVain(what=error.what, size=self.maintenance.changes.changed_bytes or 0)
                if isinstance(error, CountsDiffer):
                    log.warning(
                        "%s is recomputed, since its query gave other values than before: %s",
                        self._identifier,
                        error,
                        extra={"action": "change_not_reproducible", "table": str(self._identifier)},
                    )
                self._note({"reason": f"{self._reason}; recomputed: {error}"})
            except QueryFailed as error:
                # A query can fail on changed rows but succeed on all rows, so all rows are recomputed.
                self._note({"reason": f"{self._reason}; recomputed since that failed: {error}"})
            except EngineError as error:
                # A state may not be readable or writable, without which the rows can still be computed.
                if self._stages is None or isinstance(error, _OF_THE_TABLE):
                    raise
                self._note({"reason": f"{self._reason}; recomputed since that failed: {error}"})
        self.maintenance = None
        return None

    def _rows(self) -> Write:
        assert self._base is not None
        return Write(
            job_id=self._run.job_id or "",
            table=self._identifier,
            base=self._base,
            query=self._query,
            columns=self._table.definition.columns,
            vector=self._vector,
            scope=self._scope,
            summary=run_summary(
                run_id=self._run.run_id,
                scope=self._scope,
                sources=self._vector.to_json(),
                fingerprint=self._run.fingerprint,
                schedule_time=self._run.schedule_time,
                strategy=None if self._vector.unpinnable else self.way,
            )
            | read_summary(self._engine.changes, self._query, self._vector, self._scope, self.maintenance)
            | batch_summary(self.batch)
            | late_summary(self._left, None if self._doubted is None else self._doubted.without(self._scope))
            | in_vain_summary(self._in_vain if self.maintenance is None else None)
            | self._states_summary()
            | self._refresh_state(),
            options={**self._table.dynamic_options, **self._run.options},
            query_types=self._table.definition.query_types,
            maintenance=self.maintenance,
            stages=self._stages,
        )

    @property
    def _stages(self) -> StagePlan | None:
        """The stages whose states the write computes and keeps."""
        if self.maintenance is None:
            return self._plan.stages
        return self.maintenance.strategy.stages

    def _states_summary(self) -> dict[str, str]:
        """Return the summary entries for states that the write itself does not keep."""
        wants, names = self._plan.wants_states, dict[str, str]()
        if self.maintenance is not None and self._described is not None:
            wants = self._described.wants_states
            names = state_summary(self._described.states) if self.way is Way.NOTHING else {}
        return {**names, WANTS_STATES: "true"} if wants and self._stages is None else names

    def _states_property(self, write: Write, staged: Staged) -> str | None:
        """Return the property STATES of the publish; a run that changes nothing keeps the states of main."""
        described = self._described
        if self.way is Way.NOTHING and described is not None and (self._tiny or described.states):
            return states_property(self._publish_name, self._tiny)
        return staged.states if write.stages is not None else None

    def _refresh_state(self) -> dict[str, str]:
        """Return the summary entries for other engines.

        There are none after a refresh of some partitions: the others may have rows of other versions.
        """
        if not self._ledger.iceberg_refresh_state or not self._scope.whole:
            return {}
        return refresh_state(
            self._vector,
            catalog=self._identifier.catalog,
            fingerprint=self._run.fingerprint,
            began_at=self._began_at,
        )

    def _check_unpinned(self) -> bool:
        """Check whether sources that could not be pinned have changed during the write.

        Returns whether the run is certain to have read the versions of the vector.
        """
        if not self._vector.unpinnable:
            return True
        same = has_same(self._vector, self._engine.sources.read_vector(self._query))
        if not same and self._restarts < MAX_RESTARTS:
            raise _Restart
        return same

    # ------------------------------------------------------------------------------------------------ publish

    def _swap_main(self, write: Write, staged: Staged) -> Steps:
        def change(metadata: StorageMetadata) -> MetadataChange:
            nonlocal staged
            self._refuse_earlier(metadata)
            self._end_if_withdrawn()
            if not self._may_replace(metadata):
                self._restart(metadata)
            if metadata.last_number != staged.metadata.last_number:
                try:
                    staged = self._engine.writes.repeat(write, staged, metadata)
                except CommitConflict:
                    self._restart(metadata)
            return self.writer.publish(
                metadata,
                self._publish_name,
                staged.snapshot.snapshot_id,
                pending=staged.pending,
                states=self._states_property(write, staged),
            )

        try:
            yield from self._swap("publish", change)
        except (_Restart, RunEnded) as end:
            # A publish that is reported as a conflict may have landed; the run is then found published.
            is_published = isinstance(end, RunEnded) and end.status is RunStatus.SUCCEEDED
            if not self._is_sent and not is_published:
                self._engine.metadata.discard(staged)
            raise
        self._must_close = False
        yield "published"
        raise RunEnded(status=RunStatus.SUCCEEDED, changes={"snapshot_id": staged.snapshot.snapshot_id})

    def _may_replace(self, metadata: StorageMetadata) -> bool:
        """Return whether the rows of this run may replace main.

        A recomputation of all rows may replace those of other writers, but not the snapshot of another run:
        the next attempt of that run looks for it among the ancestors of main. Other rows may replace main if
        it has the rows on which they are based; a compaction since has not changed any, so its result may be
        replaced.
        """
        if not self._scope.whole or self.maintenance is not None:
            return self._has_rows_of(self._base, metadata)
        if metadata.main == self._base:
            return True
        history = self._engine.metadata.ancestors(metadata)
        return all(snapshot.replace or snapshot.run_id is None for snapshot in since(history, self._base))

    # --------------------------------------------------------------------------------------------------- swap

    def _swap(self, step: str, change: Callable[[StorageMetadata], MetadataChange]) -> Steps:
        """Carry out a step of the fence, unless the run has already published."""

        def unless_published(metadata: StorageMetadata) -> MetadataChange:
            self._end_if_published(metadata)
            return change(metadata)

        def swap(metadata: StorageMetadata, change: MetadataChange) -> None:
            try:
                self._engine.metadata.swap(self._identifier, metadata, change)
            except CommitUnknown:
                self._must_close = self._is_sent = True
                raise

        load, known, self._known = partial(self._engine.metadata.load, self._identifier), self._known, None
        try:
            yield from carried_out(str(self._identifier), step, load, unless_published, swap, known=known)
        except Fenced:
            raise ClaimLost from None

    @property
    def _publish_name(self) -> str:
        return publish_name(self._run.run_id, self.batch)

    def _end_if_published(self, metadata: StorageMetadata) -> None:
        last_run = self.writer.mark_of(metadata.properties).published
        if last_run != self._publish_name and self._run.attempt == 1:
            return
        ours, history = (self._run.run_id, self.batch), self._engine.metadata.ancestors(metadata)
        snapshot = next((s for s in history if (s.run_id, s.batch) == ours and not s.replace), None)
        if snapshot is not None:
            facts = {
                **written_rows(snapshot),
                "decision": "refresh",
                "snapshot_id": snapshot.snapshot_id,
                "vector": tuple(json.loads(snapshot.sources or "[]")),
                "fingerprint": snapshot.fingerprint,
            }
            raise RunEnded(status=RunStatus.SUCCEEDED, changes=facts)
        if last_run == self._publish_name:
            raise RunEnded(status=RunStatus.SUCCEEDED, changes={"decision": "refresh"})
