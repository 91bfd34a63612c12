"""The services that endpoints call, which every router receives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from mt_core.base.access import Token
from mt_core.base.background import LoopState
from mt_core.gateway.http.measurement import OnRequest
from mt_core.jobs.installed import InstalledHooks
from mt_core.model.table import MaterializedTable
from mt_core.sessions.catalog.names import SessionNames
from mt_core.sessions.executor import StatementExecutor
from mt_core.sessions.operations.jobs import Jobs
from mt_core.sessions.ports import PlanFiles, Runs
from mt_core.sessions.refreshes import OperationFinder
from mt_core.sessions.session import Session
from mt_core.sessions.sessions import SessionManager
from mt_core.tables.overview.overview import Overview
from mt_core.tables.registry import Transaction
from mt_core.tables.workflows.served import ServedWorkflows
from mt_core.tables.workflows.workflow_facts import WorkflowFacts

DEFAULT_VERSIONS = ("V1", "V2", "V3", "V4")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductInfo:
    """The response to GET /info."""

    product_name: str = "Freshtable"
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FactServices:
    """What the resources under /freshtable/v1 read.

    `reading` begins a read of the registry that delays no transaction. `workers` is the number of refreshes
    that can run at a time, and `loops` returns the states of the gateway's background loops.
    """

    overview: Overview
    reading: Callable[[], AbstractContextManager[Transaction]]
    workers: int
    started_at: datetime
    loops: Callable[[], Sequence[LoopState]] = tuple


class PageLibraries(Protocol):
    """The third-party JavaScript and CSS that the page loads, each file by its name. Thread-safe."""

    def names(self) -> frozenset[str]:
        """Return the names of the files that are available now. The page does without the others."""
        ...

    def file(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it is not available."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayServices:
    """The session manager, and the services that run work in sessions.

    `names` returns the names that a session can see. `tokens` are the bearer tokens that grant access.
    Without tokens, every request to a loopback address or to one of `hosts` has access. `engine_trouble`
    returns why the engine accepts no work, or "". `engine_note` returns a performance hint about the engine,
    or "". `scheduler_trouble` returns why the scheduler starts no refreshes, "" if it does, or None if
    unknown. `remaining_work` describes the work that continues without clients; it is None for a gateway that
    does not end with its last client. `published` are the workflows that an external scheduler reads.
    `workflow` returns what is known of a table's workflow, without a request to the scheduler. `page_base` is
    the path of the page as browsers see it, None if the gateway serves no page. `page_url` is its URL for
    browsers, "" if it is at the address of their request. Without `libraries`, the page has no charts and no
    live updates.
    """

    sessions: SessionManager
    executor: StatementExecutor
    jobs: Jobs
    hooks: InstalledHooks
    names: Callable[[Session], SessionNames]
    operations: OperationFinder
    runs: Runs
    facts: FactServices
    info: ProductInfo
    engine_trouble: Callable[[], str] = lambda: ""
    engine_note: Callable[[], str] = lambda: ""
    scheduler_trouble: Callable[[], str | None] = lambda: None
    remaining_work: Callable[[], str] | None = None
    published: ServedWorkflows | None = None
    workflow: Callable[[MaterializedTable], WorkflowFacts] = lambda _table: WorkflowFacts()
    plans: PlanFiles | None = None
    libraries: PageLibraries | None = None
    metrics: Callable[[str], tuple[bytes, str]] | None = None
    on_request: OnRequest | None = None
    public: frozenset[str] = frozenset()
    page_base: str | None = "/ui"
    page_url: str = ""
    tokens: tuple[Token, ...] = ()
    hosts: tuple[str, ...] = ()
    versions: tuple[str, ...] = DEFAULT_VERSIONS
