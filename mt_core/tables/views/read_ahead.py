"""Reads the registry's facts about many tables, with one query per kind of fact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from mt_core.errors import FactUnreadable
from mt_core.model.job import Job
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.model.table import MaterializedTable, TableIdentifier, stream_job
from mt_core.tables.registry import Transaction, each_row
from mt_core.tables.runs.upstream import table_in

# The number of newest runs of each table that are read ahead.
PAGE = 10
Statuses = frozenset[RunStatus]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAhead:
    """The readable facts of one transaction at `now`; facts that were not read ahead are read when needed."""

    tx: Transaction
    now: datetime
    _runs: dict[str, list[RefreshRun]] = field(default_factory=dict)
    # For each table id, the oldest run that has been read, if there may be older ones.
    _before: dict[str, str] = field(default_factory=dict)
    _tables: dict[TableIdentifier, MaterializedTable | None] = field(default_factory=dict)
    _jobs: dict[str, Job | None] = field(default_factory=dict)
    _sources: dict[str, TableIdentifier | None] = field(default_factory=dict)

    @classmethod
    def of(cls, tx: Transaction, tables: Iterable[MaterializedTable]) -> ReadAhead:
        """Read the facts for showing *tables*, including the newest runs of all their upstream tables."""
        ahead = cls(tx=tx, now=tx.now())
        with tx.past_unreadable():
            ahead._read_jobs(level := list(tables))
            while level:
                ahead._tables.update({table.identifier: table for table in level})
                level = ahead._read_below(ahead._read_runs([table.table_id for table in level]))
        return ahead

    def runs(self, table_id: str, statuses: Statuses = frozenset(RunStatus)) -> Iterator[RefreshRun]:
        """Yield the refreshes of a table with one of *statuses*, newest first."""
        if table_id not in self._runs:
            self._read_runs([table_id])
        yield from (run for run in self._runs[table_id] if run.status in statuses)
        before = self._before.get(table_id)
        while before is not None:
            page = self.tx.runs.newest(table_id=table_id, statuses=statuses, before=before, limit=PAGE)
            yield from page
            before = page[-1].run_id if page else None

    def materialized(self, source: str) -> MaterializedTable | None:
        """Return the materialized table with the source name *source*, or None for any other source."""
        identifier = self._identifier(source)
        return None if identifier is None else self.named(identifier)

    def named(self, identifier: TableIdentifier) -> MaterializedTable | None:
        """Return the materialized table with this name, or None."""
        if identifier not in self._tables:
            self._tables[identifier] = self.tx.tables.named(identifier)
        return self._tables[identifier]

    def job(self, job_id: str) -> Job | None:
        """Return the job with this id, or None."""
        return self._jobs[job_id] if job_id in self._jobs else self.tx.jobs.get(job_id)

    def _read_runs(self, table_ids: list[str]) -> list[RefreshRun]:
        rows: dict[str, list[RefreshRun | FactUnreadable]] = {table_id: [] for table_id in table_ids}
        for row in each_row(self.tx, lambda: self.tx.runs.newest_of_each(table_ids, limit=PAGE)):
            rows[_column(row, "table_id")].append(row)
        for table_id, page in rows.items():
            self._runs[table_id] = [row for row in page if isinstance(row, RefreshRun)]
            if len(page) == PAGE:
                self._before[table_id] = _column(page[-1], "run_id")
        return [run for table_id in table_ids for run in self._runs[table_id]]

    def _read_below(self, runs: Iterable[RefreshRun]) -> list[MaterializedTable]:
        """Return the materialized tables that *runs* read, except those that have already been read."""
        sources = {str(source["name"]) for run in runs for source in run.vector or ()}
        unknown = {self._identifier(source) for source in sources} - {None, *self._tables}
        identifiers = sorted(each for each in unknown if each is not None)
        self._tables.update(dict.fromkeys(identifiers))
        return list(self.tx.tables.with_names(identifiers))

    def _read_jobs(self, tables: Iterable[MaterializedTable]) -> None:
        job_ids = [stream_job(table.table_id) for table in tables if table.definition.streams]
        self._jobs.update(dict.fromkeys(job_ids))
        self._jobs.update({job.job_id: job for job in self.tx.jobs.with_ids(job_ids)})

    def _identifier(self, source: str) -> TableIdentifier | None:
        if source not in self._sources:
            self._sources[source] = table_in(source)
        return self._sources[source]


def _column(row: RefreshRun | FactUnreadable, name: str) -> str:
    return str(row.columns[name] if isinstance(row, FactUnreadable) else getattr(row, name))
