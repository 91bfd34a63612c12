"""Observer: watches workers on an ObservedEngine from outside.

It checks the refresh protocol after every step. P1: the rows of a run come from one version. P2: a SUCCEEDED
run is published, no partition goes back, and other partitions stay unchanged. P3: a run is published only
once, and never if its recorded status is another one. P4: there is only one RUNNING run. P5: if a requester
is told "done" or "unchanged", that is true. P6: a fenced worker changes nothing. P7: the worker that holds a
run is never fenced. P8: there is only one live run per key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from mt_core.model.partition import WHOLE, PartitionSpec, Scope
from mt_core.model.run import OPEN, RefreshRun, RunStatus
from mt_core.model.storage import Snapshot, is_run_branch
from mt_core.model.table import MaterializedTable
from mt_core.tables.definition.fingerprint import fingerprint_of
from mt_core.tables.engine import Write
from mt_core.tables.refresh.step_times import Steps
from mt_core.tables.registry import Registry, in_transaction
from mt_core.tables.runs.due import cover, due_share, scope_of
from mt_core.tables.runs.ledger import ClaimedRun
from tests.support.observed_engine import Cell, Cells, ObservedEngine

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PromiseBroken(AssertionError):
    """The protocol was violated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A request, with the positions of the sources and of the definition at that moment."""

    want: Scope
    position: int
    definition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decision:
    """The contents of main and the positions of the sources when an attempt decided."""

    claimed: ClaimedRun
    cells: Cells
    position: int


class Observer:
    """Watches one table, which finally has all its partitions if *fills* is set.

    Call `look` after every event, and make workers take their steps through `step`.
    """

    def __init__(self, registry: Registry, engine: ObservedEngine, *, fills: bool) -> None:
        self._registry, self._engine, self.fills = registry, engine, fills
        self.published: dict[str, str] = {}
        self._requests: dict[str, _Request] = {}
        self._decisions: dict[str, _Decision] = {}
        self._definitions: list[str] = []
        self._told: set[str] = set()
        self._main, self._highest = engine.storage.main, 0
        self._table_id = engine.storage.spec.table_id
        engine.on_write = self._check_left_out
        self.look()

    # ------------------------------------------------------------------------------------------------- events

    def step(self, claimed: ClaimedRun, name: str, steps: Steps) -> str | None:
        """Make a worker take the step *name*. Return the name of the next step, or None at the end."""
        fenced, held, before = self._highest > claimed.run.claim, self.holds(claimed), self._facts()
        if name == "decide":
            self._decisions[claimed.run.job_id or ""] = _Decision(
                claimed=claimed, cells=self._engine.cells(), position=len(self._engine.positions) - 1
            )
        try:
            following = next(steps, None)
        finally:
            after = self._facts()
            who = f"{_name(claimed.run)} with claim {claimed.run.claim} at {name}"
            _require(
                not fenced or after == before,
                f"P6 {who} was fenced by claim {self._highest} and changed something",
            )
            _require(
                held or after[1:] == before[1:], f"P6 {who} does not hold its run and wrote to the ledger"
            )
            self.look()
        _require(
            following is not None or not self.holds(claimed),
            f"P7 {who} holds its run, is alive, and gave it up",
        )
        return following

    def look(self) -> None:
        """Check everything that is visible from outside."""
        table = in_transaction(self._registry, lambda tx: _present(tx.tables.get(self._table_id)))
        current = fingerprint_of(table.definition)
        if self._definitions[-1:] != [current]:
            self._definitions.append(current)
        runs = self.runs()
        for run in runs:
            self._requests.setdefault(run.run_id, self._request_of(run))
        self._check_main({run.run_id: run for run in runs})
        self._highest = max(self._highest, self._engine.storage.epoch)
        self._check_ledger(runs)

    def holds(self, claimed: ClaimedRun) -> bool:
        """Return whether *claimed* is the current claim in the ledger."""
        run = in_transaction(self._registry, lambda tx: tx.runs.get(claimed.run.run_id))
        ours = (RunStatus.RUNNING, claimed.run.attempt, claimed.run.claim)
        return run is not None and (run.status, run.attempt, run.claim) == ours

    def runs(self) -> Sequence[RefreshRun]:
        """Return the ledger, oldest request first."""
        return list(
            reversed(in_transaction(self._registry, lambda tx: list(tx.runs.newest(table_id=self._table_id))))
        )

    def _facts(self) -> tuple[object, ...]:
        storage = self._engine.storage
        rows = in_transaction(
            self._registry, lambda tx: (tx.tables.get(self._table_id), list(tx.runs.newest()))
        )
        return (storage.main, storage.epoch, storage.last_run), *rows

    def _request_of(self, run: RefreshRun) -> _Request:
        return _Request(
            want=run.scope, position=len(self._engine.positions) - 1, definition=len(self._definitions) - 1
        )

    # --------------------------------------------------------------------------------------------------- main

    def _check_main(self, runs: dict[str, RefreshRun]) -> None:
        storage = self._engine.storage
        if storage.main == self._main:
            return
        facts = storage.snapshots[storage.main].facts
        if facts.run_id is not None and not facts.replace:
            run = runs[facts.run_id]
            _require(run.status in OPEN, f"P3 {_name(run)} is recorded {run.status} and is published now")
            _require(run.run_id not in self.published, f"P3 {_name(run)} is published twice")
            self._check_content(run, facts)
            self.published[run.run_id] = storage.main
        self._main = storage.main

    def _check_content(self, run: RefreshRun, facts: Snapshot) -> None:
        old, new = self._engine.cells(self._main), self._engine.cells(facts.snapshot_id)
        versions = {(cell.position, cell.fingerprint) for cell in new.values() if cell.run_id == run.run_id}
        _require(len(versions) == 1, f"P1 {_name(run)} mixes versions: {versions}")
        for spec in self._engine.partitions:
            before, after = old.get(spec), new.get(spec)
            rows = self._engine.rows_in(spec, facts.snapshot_id)
            if facts.scope is not None and facts.scope.covers(spec):
                assert after is not None
                back = before is not None and before.run_id is not None and before.position > after.position
                _require(not back, f"P2 {_name(run)} takes {spec} back from {before} to {after}")
                _require(
                    rows == self._engine.read_rows(spec, after),
                    f"P1 {_name(run)} gives {spec} rows it did not read",
                )
            else:
                same = before == after and rows == self._engine.rows_in(spec, self._main)
                _require(same, f"P2 {_name(run)} does not own {spec} and changes it from {before} to {after}")

    # ------------------------------------------------------------------------------------------------- ledger

    def _check_ledger(self, runs: Sequence[RefreshRun]) -> None:
        running = [run for run in runs if run.status is RunStatus.RUNNING]
        _require(len(running) <= 1, f"P4 {len(running)} runs are RUNNING")
        for run in runs:
            if run.status not in OPEN and run.run_id not in self._told:
                self._told.add(run.run_id)
                self._check_end(run, runs)
        self._check_keys(runs)

    def _check_end(self, run: RefreshRun, runs: Sequence[RefreshRun]) -> None:
        published = self.published.get(run.run_id)
        if run.status is RunStatus.SUCCEEDED:
            _require(published is not None, f"P2 {_name(run)} is recorded SUCCEEDED and is not published")
            self._check_told(run, runs, self._engine.cells(published))
            return
        _require(published is None, f"P3 {_name(run)} is published and is recorded {run.status}")
        if run.status is RunStatus.SKIPPED and run.decision == "skip":
            decision = self._decisions[run.job_id or ""]
            self._check_unchanged(decision, self._engine.partitions)
            self._check_told(run, runs, decision.cells)

    def _check_told(self, host: RefreshRun, runs: Iterable[RefreshRun], cells: Cells) -> None:
        """Check the answer to the requesters of *host* whose refresh is done.

        The sources and the definition must be at least as new as at the time of the request.
        """
        for run in runs:
            if run.cancel_requested or host.run_id not in (run.run_id, run.covered_by):
                continue
            asked = self._requests[run.run_id]
            for spec in self._engine.partitions:
                cell = cells.get(spec)
                foreign = (
                    cell is not None and cell.run_id is None
                )  # It was written after the decision, which was itself checked.
                if asked.want.covers(spec) and not foreign:
                    text = f"P5 {_name(run)} is told {host.status}, but {spec} holds {cell}; asked at {asked}"
                    _require(cell is not None and self._is_as_new_as(cell, asked), text)

    def _is_as_new_as(self, cell: Cell, asked: _Request) -> bool:
        versions = [position.get(cell.source) for position in self._engine.positions[asked.position :]]
        return cell.version in versions and cell.fingerprint in self._definitions[asked.definition :]

    def _check_left_out(self, write: Write) -> None:
        decision = self._decisions.get(write.job_id)
        if decision is not None:
            left_out = [spec for spec in self._engine.partitions if not write.scope.covers(spec)]
            self._check_unchanged(decision, left_out)

    def _check_unchanged(self, decision: _Decision, left_out: Iterable[PartitionSpec]) -> None:
        """Check a partition that the run omitted as unchanged.

        It must have the rows that the run would have written.
        """
        run = decision.claimed.run
        for spec in left_out:
            if not run.scope.covers(spec):
                continue
            cell = decision.cells.get(spec)
            same = (
                cell is not None
                and cell.run_id is not None
                and cell.version == self._engine.positions[decision.position].get(cell.source)
                and cell.fingerprint == run.fingerprint
            )
            _require(same, f"P5 {_name(run)} leaves {spec} out as unchanged, but it holds {cell}")

    def _check_keys(self, runs: Sequence[RefreshRun]) -> None:
        by_id, live = {run.run_id: run for run in runs}, set()
        for run in runs:
            shown = by_id[run.covered_by] if run.covered_by else run
            gone = run.cancel_requested or shown.status in (RunStatus.FAILED, RunStatus.CANCELED)
            if run.request_key is not None and not gone:
                _require(run.request_key not in live, f"P8 key {run.request_key} has a second live run")
                live.add(run.request_key)

    # --------------------------------------------------------------------------------------------------- rest

    def check_rest(self, points: Mapping[datetime, int]) -> None:
        """Check the invariants of a state without faults, after the last of *points*.

        The values of *points* are source positions.
        """
        table, covering = in_transaction(
            self._registry,
            lambda tx: (_present(tx.tables.get(self._table_id)), tx.runs.covering(self._table_id, EPOCH)),
        )
        waiting = [_name(run) for run in self.runs() if run.status in OPEN]
        _require(not waiting, f"L1 these never end: {waiting}")
        branches = self._engine.storage.branches
        _require(not any(map(is_run_branch, branches)), f"L2 left over: {branches}")
        if not table.definition.date_formatters:
            for spec in self._engine.partitions:
                self._check_current(spec, len(self._engine.positions) - 1)
            return
        self._check_covered(table, covering, points)

    def _check_covered(
        self, table: MaterializedTable, covering: Sequence[RefreshRun], points: Mapping[datetime, int]
    ) -> None:
        # By the ledger, not by the marks that the table keeps of it.
        by_ledger = cover(
            replace(table, covered_until=table.created_at, covered=()),
            (point for run in covering for point in run.points),
        )
        for known in (by_ledger, table):
            due = due_share(known, max(points), max_partitions=len(points) + 1).points
            _require(not due, f"L3 still due: {due}")
        _require(not table.failing, f"L3 still failing: {table.failing}")
        wanted = dict.fromkeys(self._engine.partitions if self.fills else (), 0)
        for point, position in points.items():
            wanted.update(dict.fromkeys(scope_of(table, [point]).specs or (), position))
        for spec, position in wanted.items():
            if self._engine.cells().get(spec) != Cell(run_id=None):
                self._check_current(spec, position)

    def _check_current(self, spec: PartitionSpec, position: int) -> None:
        """Check that the partition has the sources at *position* or later, with the current definition."""
        cell = self._engine.cells().get(spec)
        current = cell is not None and self._is_as_new_as(
            cell, _Request(want=WHOLE, position=position, definition=len(self._definitions) - 1)
        )
        _require(current, f"L3 {spec} rests as {cell}")


def _present(table: MaterializedTable | None) -> MaterializedTable:
    assert table is not None, "nobody drops a table that is observed"
    return table


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise PromiseBroken(text)


def _name(run: RefreshRun) -> str:
    return f"run {run.run_id[-4:]}.{run.attempt} ({run.kind}, {run.scope})"
