"""The services that the endpoints call, which every router receives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mt_core.base.access import Token
from mt_core.jobs.installed import InstalledHooks
from mt_core.sessions.catalog.names import SessionNames
from mt_core.sessions.executor import StatementExecutor
from mt_core.sessions.operations.jobs import Jobs
from mt_core.sessions.ports import PlanFiles, Runs
from mt_core.sessions.refreshes import OperationFinder
from mt_core.sessions.session import Session
from mt_core.sessions.sessions import SessionManager
from mt_core.tables.workflows.published import PublishedWorkflows

DEFAULT_VERSIONS = ("V1", "V2", "V3", "V4")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductInfo:
    """The answer of GET /info."""

    product_name: str = "Freshtable"
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayServices:
    """Sessions and what runs in them; `names` are those that a session can see.

    `tokens` are the bearer tokens that give access (none: any request to a loopback address or one of `hosts`
    has it); `engine_trouble` says why the engine takes no work (empty: it does), `engine_note` what it does
    more slowly than it could (empty: nothing), `scheduler_trouble` why the scheduler begins no refreshes
    (empty: it does; None: not known), `remaining_work` what goes on without clients (None: the gateway stays
    in any case); `versions` are the API versions of GET /api_versions; `published` are the workflows that an
    external scheduler reads, `plans` the files of compiled plans.
    """

    sessions: SessionManager
    executor: StatementExecutor
    jobs: Jobs
    hooks: InstalledHooks
    names: Callable[[Session], SessionNames]
    operations: OperationFinder
    runs: Runs
    info: ProductInfo
    engine_trouble: Callable[[], str] = lambda: ""
    engine_note: Callable[[], str] = lambda: ""
    scheduler_trouble: Callable[[], str | None] = lambda: None
    remaining_work: Callable[[], str] | None = None
    published: PublishedWorkflows | None = None
    plans: PlanFiles | None = None
    tokens: tuple[Token, ...] = ()
    hosts: tuple[str, ...] = ()
    versions: tuple[str, ...] = DEFAULT_VERSIONS
