"""What sessions ask of materialized tables: statements with their context, refresh requests, and runs to wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mt_core.identifiers import Namespace
from mt_core.model.run import RefreshRun
from mt_core.model.table import TableIdentifier
from mt_core.rowset import RowSet
from mt_core.sql.statements import Statement
from mt_core.tables.engine import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """The session a statement comes from: where its names are looked up, and the properties that differ from the defaults.

    `caller` is the name of the token that the statement was sent with, "" where none is asked for.
    `zone` is the time zone of its queries (None: that of its properties, or the default); `temporary_relations` and
    `temporary_functions` are the names, in lower case, that it has for itself alone.
    """

    catalog: str
    namespace: Namespace
    properties: Mapping[str, str] = field(default_factory=dict)
    caller: str = ""
    zone: str | None = None
    temporary_relations: frozenset[str] = frozenset()
    temporary_functions: frozenset[str] = frozenset()

    @property
    def by(self) -> str:
        """Who changes a table, as DESCRIBE says it."""
        return self.caller or "SQL"

    @property
    def requested_by(self) -> str | None:
        """The name of the caller's token as the ledger has it, None where none is asked for."""
        return self.caller or None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOutcome:
    """What a statement came to. `rows` None means "OK"; `wait_for` is a run that the operation has to wait for;
    `created` is the table whose CREATE goes on with that run; `passthrough` sends the text to Spark: it is not about our tables."""

    rows: RowSet | None = None
    wait_for: str | None = None
    created: TableIdentifier | None = None
    warnings: tuple[str, ...] = ()
    passthrough: bool = False


class TableCommands(Protocol):
    """Executes the statements of ours."""

    def execute(self, statement: Statement, context: CommandContext) -> CommandOutcome:
        """Raises MtError with nothing changed, or with everything undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshRequest:
    """A call of the refresh endpoint (FLIP-448): `schedule_time` is 'yyyy-MM-dd HH:mm:ss' in the table's zone.

    With `force` a periodic refresh is done even if its sources are unchanged;
    `request_key` is the caller's idempotency key, `table_id` the uuid the caller means, `attempt` the caller's own count,
    `requested_by` the name of the caller's token.
    """

    identifier_text: str
    is_periodic: bool
    schedule_time: str | None = None
    dynamic_options: Mapping[str, str] = field(default_factory=dict)
    static_partitions: Mapping[str, str] = field(default_factory=dict)
    execution_config: Mapping[str, str] = field(default_factory=dict)
    request_key: str | None = None
    table_id: str | None = None
    attempt: int | None = None
    force: bool = False
    requested_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshJob:
    """Spark's work for a run, and the table it refreshes; None for one that was dropped since."""

    run: RefreshRun
    table: TableIdentifier | None


class Runs(Protocol):
    """Refresh runs as requesters see them: a COALESCED run shows the status and result of the run that covers it."""

    def request_refresh(self, request: RefreshRequest) -> RefreshRun:
        """Check *request*, queue or attach, commit; raises TableNotFound, TableGone, TableInitializing, RequestInvalid."""

    def run(self, run_id: str) -> RefreshRun | None: ...

    def wait_run(self, run_id: str, timeout_s: float) -> RefreshRun:
        """Return the run as soon as it is terminal, or as it is after *timeout_s*; raises OperationNotFound."""

    def cancel_run(self, run_id: str, attempt: int | None = None) -> RefreshRun:
        """Take one requester away, unless its *attempt* is older than one seen since; return the run as it shows itself."""

    def progress(self, run_id: str) -> Progress | None: ...

    def running_jobs(self) -> Sequence[RefreshJob]:
        """Return the jobs of the runs at work, the one asked for first first."""

    def job(self, job_id: str) -> RefreshJob | None:
        """Return the job of a run that is open or among the last thousand, None for any other id."""
