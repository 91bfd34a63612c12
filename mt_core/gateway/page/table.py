"""The view of one table: its state and the cause, its ledger, its definition, and what it reads and feeds.

A person on call reads it from the top: the sentence, the error, the refresh that is running, and the actions.
The browser updates these parts and the ledger; the others only change with the definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request, Response

from mt_core.base.identifiers import display_name
from mt_core.base.secrets import masked, without_passwords
from mt_core.errors import FactUnreadable, OperationNotFound, TableNotFound
from mt_core.gateway.facts.listing import Listed
from mt_core.gateway.facts.query import AFTER, Parameter
from mt_core.gateway.facts.tables import ShownTable
from mt_core.gateway.page.actions.forms import DONE, Done
from mt_core.gateway.page.charts.curves import RANGE, Curves, range_of
from mt_core.gateway.page.explanations import Explanations, ExplanationStatus
from mt_core.gateway.page.ledger import Ledger, LedgerRow
from mt_core.gateway.page.page import Page
from mt_core.gateway.page.route import visitor_of
from mt_core.gateway.page.run import RunFacts, read_run
from mt_core.gateway.page.sentences import Sentence, sentence
from mt_core.gateway.page.trees import Tree, read_by, reads
from mt_core.gateway.services import GatewayServices
from mt_core.model.progress import Progress
from mt_core.model.run import RefreshRun, RunKind, RunStatus
from mt_core.model.table import MaterializedTable, RefreshMode, RefreshStatus
from mt_core.sql.flink.spark_types import in_flink
from mt_core.tables.overview.facts import TableFacts
from mt_core.tables.overview.graph import Graph
from mt_core.tables.overview.lateness import State
from mt_core.tables.registry import Transaction
from mt_core.tables.views.run_view import RunView
from mt_core.tables.views.table_rows import schedule_text
from mt_core.tables.workflows.workflow_facts import WorkflowFacts

RUN = Parameter(name="run", description="The id of the refresh that is open in the ledger.")
MOST_WAITING = 5
# The element with the refresh that is open, which the browser updates by itself.
REFRESH_ID = "refresh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The refresh of a table that is running, with the tasks of Spark, and those that wait, oldest first.

    Of those that wait, `further` are left out.
    """

    running: RunView | None
    progress: Progress | None
    waiting: Sequence[RunView]
    further: int

    @classmethod
    def read(
        cls, services: GatewayServices, tx: Transaction, table: MaterializedTable | None, table_id: str
    ) -> Work:
        with tx.past_unreadable():
            begun = tx.runs.newest(
                table_id=table_id, statuses=(RunStatus.RUNNING,), kinds=tuple(RunKind), limit=1
            )
            queued = tx.runs.queued(table_id)
        running = next(iter(begun), None)
        return cls(
            running=None if running is None else RunView.of(running, table),
            progress=None if running is None else _progress(services, running),
            waiting=[RunView.of(run, table) for run in queued[:MOST_WAITING]],
            further=max(0, len(queued) - MOST_WAITING),
        )


def _progress(services: GatewayServices, run: RefreshRun) -> Progress | None:
    is_measured = run.job_id is not None and run.kind is not RunKind.CONTINUOUS
    return services.runs.progress(run.run_id) if is_measured else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a table is, as its author declared it, with passwords masked."""

    stored: MaterializedTable

    @property
    def query(self) -> str:
        return without_passwords(self.stored.definition.original_query)

    @property
    def columns(self) -> list[tuple[str, str, bool, str]]:
        """The columns with their Flink types, whether they are nullable, and their comments."""
        return [
            (column.name, in_flink(column.type), column.nullable, column.comment or "")
            for column in self.stored.definition.columns
        ]

    @property
    def has_comments(self) -> bool:
        return any(column.comment for column in self.stored.definition.columns)

    @property
    def options(self) -> Mapping[str, str]:
        return masked(self.stored.definition.options)

    @property
    def dynamic_options(self) -> Mapping[str, str]:
        return masked(self.stored.dynamic_options)

    @property
    def schedule(self) -> str:
        """How often the table is refreshed, in words."""
        return schedule_text(self.stored.definition).replace("every 1 ", "every ")


class TableView:
    """What the template shows of one table. Each part is read when it is shown."""

    def __init__(
        self, page: Page, table_id: str, now: datetime, *, after: str = "", opened: str = ""
    ) -> None:
        self._services, self._id, self._now = page.services, table_id, now
        self._page, self._after, self._opened = page, after, opened
        self._shown = ShownTable.read(page.services.facts, table_id, now)

    @property
    def id(self) -> str:
        return self._id

    @property
    def listed(self) -> Listed:
        return self._shown.listed

    @property
    def facts(self) -> TableFacts | None:
        """The facts of the table, None if it cannot be read."""
        return self.listed if isinstance(self.listed, TableFacts) else None

    @property
    def name(self) -> str:
        return str(self.listed.identifier)

    @property
    def namespace(self) -> str:
        return display_name(self.listed.identifier.parts[:-1])

    @property
    def short_name(self) -> str:
        """The name without the namespace."""
        return display_name(self.listed.identifier.parts[-1:])

    @property
    def state(self) -> State:
        return State.FAILING if self.facts is None else self.facts.state

    @property
    def sentence(self) -> Sentence:
        return sentence(self.listed)

    @property
    def zone(self) -> str:
        return "UTC" if self.facts is None else self.facts.zone

    @property
    def stored(self) -> MaterializedTable | None:
        return self._shown.stored

    @property
    def error(self) -> str | None:
        """The whole error of the last refresh; None if it did not fail, or the sentence says all of it."""
        last = None if self.facts is None else self.facts.last
        if last is None or last.status is not RunStatus.FAILED or not last.error:
            return None
        is_said = any(part.text.endswith(f": {last.error.removesuffix('.')}") for part in self.sentence)
        return None if is_said else last.error

    @property
    def can_refresh(self) -> bool:
        """Whether refreshes can be requested and explained, and rows be verified."""
        stored = self.stored
        return (
            stored is not None
            and not stored.definition.streams
            and stored.status is not RefreshStatus.INITIALIZING
        )

    @cached_property
    def work(self) -> Work:
        with self._services.facts.reading() as tx:
            return Work.read(self._services, tx, self.stored, self._id)

    @cached_property
    def ledger(self) -> Ledger:
        with self._services.facts.reading() as tx:
            return Ledger.read(tx, self._id, after=self._after, opened=self._opened)

    @cached_property
    def refresh(self) -> RunFacts | None:
        """The refresh that is open, None if none is, or if this table has no such refresh."""
        if not self._opened:
            return None
        try:
            found = read_run(self._page, self._opened)
        except OperationNotFound:
            return None
        return found if found.table_id == self._id else None

    @property
    def lacks_refresh(self) -> bool:
        """Whether the address names a refresh that this table does not have."""
        return bool(self._opened) and self.refresh is None

    @property
    def is_first_page(self) -> bool:
        return not self._after

    def address_of(self, row: LedgerRow) -> str:
        """Return the address at which this run is open, or at which it no longer is if it is open."""
        if row.is_open:
            return self.close_address
        return self._address("refresh", run=row.run_id, after=self._after)

    @property
    def close_address(self) -> str:
        """The address at which no run is open."""
        return self._address("ledger", after=self._after)

    @property
    def next_address(self) -> str | None:
        """The address of the next page of the ledger, None on the last one."""
        following = self.ledger.following
        return None if following is None else self._address("ledger", after=following)

    def _address(self, element: str, **query: str) -> str:
        parameters = urlencode({name: text for name, text in query.items() if text})
        path = f"{self._page.base}/tables/{quote(self._id, safe='')}"
        return f"{path}{'?' if parameters else ''}{parameters}#{element}"

    @property
    def definition(self) -> Definition | None:
        return None if self.stored is None else Definition(stored=self.stored)

    @cached_property
    def graph(self) -> Graph:
        return Graph.of(self._shown.tables)

    @property
    def reads(self) -> Tree:
        return reads(self.graph, self.name)

    @property
    def read_by(self) -> Tree:
        return read_by(self.graph, self.name)

    @property
    def workflow(self) -> WorkflowFacts:
        return WorkflowFacts() if self.stored is None else self._services.workflow(self.stored)

    @property
    def scheduler_trouble(self) -> str | None:
        return self._services.scheduler_trouble()


def table_router(page: Page, curves: Curves) -> APIRouter:
    """Return the endpoints of one table, with its *curves*."""
    router, explanations = page.router(), Explanations(page.services)

    @router.get("/tables/{table_id}")
    def get_table(table_id: str, request: Request) -> Response:
        query = page.query(request, (AFTER, RUN, RANGE, DONE))
        after, opened, now = query.text(AFTER.name), query.text(RUN.name), page.now()
        span, done = range_of(query), query.choice(DONE.name, Done)
        version = _version(page, table_id, now)

        def facts() -> Mapping[str, Any]:
            view = TableView(page, table_id, now, after=after, opened=opened)
            return {"table": view, "charts": partial(curves.shown, table_id, span), "done": done}

        if request.headers.get("hx-target") == REFRESH_ID:
            version = read_run(page, opened).version
        try:
            return page.answer(request, "table.html", facts, version=version)
        except TableNotFound:
            return _gone(page, request, table_id)

    @router.get("/tables/{table_id}/explain")
    def get_explanation(table_id: str, request: Request) -> Response:
        page.query(request)
        page.require_sql(request)
        now = page.now()

        def facts() -> Mapping[str, Any]:
            view = TableView(page, table_id, now)
            return {"table": view, "explanation": explanations.of(table_id)}

        try:
            return page.answer(
                request, "explain.html", facts, version=_version_of(explanations, table_id, now)
            )
        except TableNotFound:
            return _gone(page, request, table_id)

    @router.post("/tables/{table_id}/explain")
    def explain(table_id: str, request: Request) -> Response:
        page.query(request)
        page.require_sql(request)
        try:
            shown = ShownTable.read(page.services.facts, table_id, page.now())
        except TableNotFound:
            return _gone(page, request, table_id)
        explanations.ask(table_id, shown.listed.identifier, visitor_of(request).name)
        return page.redirect(f"/tables/{table_id}/explain")

    return router


def _version(page: Page, table_id: str, now: datetime) -> str:
    """Return text that changes when the view of a table may; each second while a refresh is running."""
    overview = page.services.facts.overview
    facts = overview.table(table_id, now)
    is_running = facts is not None and facts.running and facts.mode is RefreshMode.FULL
    return f"{overview.version(now)}{f' {int(now.timestamp())}' if is_running else ''}"


def _version_of(explanations: Explanations, table_id: str, now: datetime) -> str:
    found = explanations.of(table_id)
    if found is None:
        return "none"
    second = f" {int(now.timestamp())}" if found.status is ExplanationStatus.WORKING else ""
    return f"{found.asked_at.isoformat()} {found.status}{second}"


def _gone(page: Page, request: Request, table_id: str) -> Response:
    """Return the page about a table that does not exist, with the end of its ledger if it had one."""

    def facts() -> Mapping[str, Any]:
        with page.services.facts.reading() as tx:
            try:
                runs = tx.runs.newest(table_id=table_id, kinds=tuple(RunKind), limit=1)
            except FactUnreadable:
                runs = ()
        return {"table_id": table_id, "last": next(iter(runs), None)}

    return page.answer(request, "table_gone.html", facts, status=404)
