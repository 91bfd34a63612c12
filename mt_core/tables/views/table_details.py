"""The details of one table for DESCRIBE EXTENDED: its facts, its runs, its workflow and its storage."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mt_core.errors import MtError
from mt_core.model.run import RunStatus
from mt_core.model.storage import StorageMetadata
from mt_core.model.table import MaterializedTable
from mt_core.tables.keeper import KeeperState
from mt_core.tables.overview.facts import TableFacts
from mt_core.tables.services import TableServices
from mt_core.tables.views.run_view import RunView, SourceView
from mt_core.tables.workflows.observer import ObservedWorkflow

_RECENT = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDetails:
    """Further facts about a table, for DESCRIBE EXTENDED.

    `facts` are those at `now`, None if the table was dropped in the meantime. `last` is its latest run that
    is no longer queued, and `waiting` the oldest run that is waiting for other tables. `sources` are those of
    the latest run that has read any. If the storage could not be read, `storage` is the error. `objection` is
    the reason why a missing workflow cannot be recreated, and `engine_trouble` what is wrong with the engine;
    each is "" if there is no problem.
    """

    table: MaterializedTable
    now: datetime
    facts: TableFacts | None
    workflow: ObservedWorkflow | None
    last: RunView | None
    waiting: RunView | None
    sources: tuple[SourceView, ...] | None
    storage: StorageMetadata | MtError
    objection: str
    engine_trouble: str

    @classmethod
    def read(
        cls, services: TableServices, table: MaterializedTable, workflow: ObservedWorkflow | None
    ) -> TableDetails:
        """Return the details of *table* from the overview, the ledger, the storage and the keeper."""
        overview = services.overview
        overview.catch_up()
        now = overview.now()
        with services.registry.reading() as tx:
            runs = tx.runs.newest(table_id=table.table_id, limit=_RECENT)
        views = [RunView.of(run, table) for run in runs]
        report = workflow.report if workflow is not None else None
        missing = report is not None and report.state is KeeperState.MISSING
        try:
            storage: StorageMetadata | MtError = services.engine.metadata.load(table.identifier)
        except MtError as error:
            storage = error
        return cls(
            table=table,
            now=now,
            facts=overview.table(table.table_id, now),
            workflow=workflow,
            last=next((view for view in views if view.run.status is not RunStatus.QUEUED), None),
            waiting=next((view for view in reversed(views) if view.is_waiting), None),
            sources=next((view.sources for view in views if view.sources), None),
            storage=storage,
            objection=services.keeper.objection(table) if missing else "",
            engine_trouble=services.engine.state.trouble(),
        )
