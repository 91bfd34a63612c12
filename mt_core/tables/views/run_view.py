"""A refresh run as users see it, read from the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mt_core.errors import FactUnreadable
from mt_core.model.run import RefreshRun, RunKind, RunStatus
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.tables.overview.standing import kind_of
from mt_core.tables.registry import Registry, Transaction, each_row, in_transaction

# A page takes about ten milliseconds, during which no other transaction can begin.
PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run, its table (None if it was dropped), and the time zone in which its times are shown."""

    run: RefreshRun
    table: TableIdentifier | None
    zone: str = "UTC"

    @classmethod
    def of(cls, run: RefreshRun, table: MaterializedTable | None) -> RunView:
        if table is None:
            return cls(run=run, table=None)
        return cls(run=run, table=table.identifier, zone=table.definition.zone)

    @property
    def kind(self) -> str:
        """The origin of the run."""
        return kind_of(self.run)

    @property
    def reason(self) -> str | None:
        """Why the run did what it did; for a continuous run, also the number and the lag of its batches."""
        run = self.run
        if not run.batches:
            return run.why
        lags = sorted(batch.lag for batch in run.recent if batch.lag is not None)
        behind = f", lag p50 {_quantile(lags, 0.5)} s, p99 {_quantile(lags, 0.99)} s" if lags else ""
        return f"{run.batches} batch{'es' if run.batches > 1 else ''}{behind}; {run.reason}"

    @property
    def is_waiting(self) -> bool:
        """Whether the run is waiting for runs of other tables."""
        return self.run.status is RunStatus.QUEUED and self.run.waits_until is not None

    @property
    def sources(self) -> tuple[SourceView, ...]:
        """The sources that the run has read, as far as the ledger records them."""
        return tuple(SourceView.of(source) for source in self.run.vector or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """A source of a query.

    `kind` is table, view, function or unversioned. `version` is None if it is unversioned or a table without
    rows.
    """

    name: str
    kind: str
    versioned: bool
    version: str | None

    @classmethod
    def of(cls, source: Mapping[str, Any]) -> SourceView:
        """Return the view of an entry in a source vector."""
        version = source["version"]
        shown = version.get("snapshot", version.get("hash")) if isinstance(version, Mapping) else None
        return cls(name=source["name"], kind=source["kind"], versioned=version is not None, version=shown)

    def __str__(self) -> str:
        version = f"version {self.version}" if self.versioned else "no versions"
        return f"{self.name} ({self.kind}, {version})"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableRun:
    """A run whose stored row cannot be read, and why; `table` is None if it was dropped or is unreadable."""

    run_id: str
    table_id: str
    table: TableIdentifier | None
    error: FactUnreadable


def newest_continuous_runs(registry: Registry, *, table_id: str | None, limit: int) -> list[RunView]:
    """Return the newest continuous runs, as many as are needed for *limit* batches in total."""
    runs = newest_runs(registry, table_id=table_id, status=None, limit=PAGE)
    views: list[RunView] = []
    for view in runs:
        if (
            isinstance(view, RunView)
            and view.run.recent
            and sum(len(each.run.recent) for each in views) < limit
        ):
            views.append(view)
    return views


def newest_runs(
    registry: Registry, *, table_id: str | None, status: RunStatus | None, limit: int
) -> list[RunView | UnreadableRun]:
    """Return up to *limit* runs, newest first; *table_id* and *status* restrict them unless they are None."""
    views: list[RunView | UnreadableRun] = []
    before: str | None = None
    while len(views) < limit:
        number = min(PAGE, limit - len(views))
        read = partial(_page, table_id=table_id, status=status, before=before, number=number)
        page = in_transaction(registry, read)
        views += page
        if len(page) < number:
            break
        last = page[-1]
        before = last.run.run_id if isinstance(last, RunView) else last.run_id
    return views


def _page(
    tx: Transaction, *, table_id: str | None, status: RunStatus | None, before: str | None, number: int
) -> Sequence[RunView | UnreadableRun]:
    statuses = None if status is None else (status,)
    runs = each_row(
        tx,
        lambda: tx.runs.newest(
            table_id=table_id, statuses=statuses, kinds=tuple(RunKind), before=before, limit=number
        ),
    )
    # Only the tables of this page, because reading thousands of tables would block other transactions.
    with tx.past_unreadable():
        tables = {each: tx.tables.get(each) for each in {_table_of(run) for run in runs}}
    return [_view(run, tables[_table_of(run)]) for run in runs]


def _table_of(run: RefreshRun | FactUnreadable) -> str:
    return str(run.columns["table_id"]) if isinstance(run, FactUnreadable) else run.table_id


def _view(run: RefreshRun | FactUnreadable, table: MaterializedTable | None) -> RunView | UnreadableRun:
    if not isinstance(run, FactUnreadable):
        return RunView.of(run, table)
    identifier = None if table is None else table.identifier
    return UnreadableRun(
        run_id=str(run.columns["run_id"]), table_id=_table_of(run), table=identifier, error=run
    )


def _quantile(lags: Sequence[float], share: float) -> float:
    """Return the quantile *share* (0 to 1) of *lags*, which are sorted."""
    return lags[min(len(lags) - 1, int(share * len(lags)))]
