"""RunView: a refresh run as users see it, read from the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.tables.registry import Registry, Transaction, in_transaction

# A page takes some ten milliseconds, in which no other transaction can begin.
PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run with the table that it refreshes, None for one that was dropped since, and the zone to show its times in."""

    run: RefreshRun
    table: TableIdentifier | None
    zone: str = "UTC"

    @classmethod
    def of(cls, run: RefreshRun, table: MaterializedTable | None) -> RunView:
        if table is None:
            return cls(run=run, table=None)
        return cls(run=run, table=table.identifier, zone=table.definition.zone)

    @property
    def sources(self) -> tuple[SourceView, ...]:
        """The sources that the run has read, as far as the ledger has them."""
        return tuple(SourceView.of(source) for source in self.run.vector or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """A source of a query; `kind` is table, view, function or unversioned, `version` None for the last, and for a table
    without rows."""

    name: str
    kind: str
    versioned: bool
    version: str | None

    @classmethod
    def of(cls, source: Mapping[str, Any]) -> SourceView:
        """Return the view of an entry of a source vector."""
        version = source["version"]
        shown = version.get("snapshot", version.get("hash")) if isinstance(version, Mapping) else None
        return cls(name=source["name"], kind=source["kind"], versioned=version is not None, version=shown)

    def __str__(self) -> str:
        version = f"version {self.version}" if self.versioned else "no versions"
        return f"{self.name} ({self.kind}, {version})"


def newest_runs(registry: Registry, *, table_id: str | None, status: RunStatus | None, limit: int) -> list[RunView]:
    """Return at most *limit* runs, newest first; *table_id* None: of all tables, *status* None: in any status."""
    views: list[RunView] = []
    before: str | None = None
    while len(views) < limit:
        number = min(PAGE, limit - len(views))
        read = partial(_page, table_id=table_id, status=status, before=before, number=number)
        page = in_transaction(registry, read)
        views += page
        if len(page) < number:
            break
        before = page[-1].run.run_id
    return views


def _page(
    tx: Transaction, *, table_id: str | None, status: RunStatus | None, before: str | None, number: int
) -> Sequence[RunView]:
    statuses = None if status is None else (status,)
    runs = tx.runs.newest(table_id=table_id, statuses=statuses, before=before, limit=number)
    # Not all tables: thousands would keep other transactions waiting.
    tables = {each: tx.tables.get(each) for each in {run.table_id for run in runs}}
    return [RunView.of(run, tables[run.table_id]) for run in runs]
