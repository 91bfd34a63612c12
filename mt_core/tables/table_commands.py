"""The inputs and outputs of the table manager: context and outcome of a statement, and a refresh request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mt_core.base.identifiers import Namespace
from mt_core.base.rowset import RowSet
from mt_core.model.freshness import Freshness
from mt_core.model.table import TableIdentifier


def _without_variables(_name: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """The session of a statement: where names are resolved, and the properties that it has set.

    `caller` is the name of the token that was sent with the statement, "" if none is required. `zone` is the
    time zone of its queries; None means the time zone in its properties, or the default.
    `temporary_relations` and `temporary_functions` are the names, in lower case, of objects that exist only
    in this session. `has_variable` returns whether it has a variable with a name. `job_id` is the id of the
    statement's job.
    """

    catalog: str
    namespace: Namespace
    properties: Mapping[str, str] = field(default_factory=dict)
    caller: str = ""
    zone: str | None = None
    temporary_relations: frozenset[str] = frozenset()
    temporary_functions: frozenset[str] = frozenset()
    has_variable: Callable[[str], bool] = field(default=_without_variables, compare=False)
    job_id: str = ""

    @property
    def by(self) -> str:
        """The author of a change, as DESCRIBE shows it."""
        return self.caller or "SQL"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOutcome:
    """The result of a statement.

    If `rows` is None, the result is "OK". `wait_for` is a run that the operation has to wait for. `created`
    is the table whose CREATE ends with that run. `recomputed` is the table's freshness if each change of a
    source recomputes all rows. `passthrough` is set if DESCRIBE names a table or view that is not
    materialized.
    """

    rows: RowSet | None = None
    wait_for: str | None = None
    created: TableIdentifier | None = None
    recomputed: Freshness | None = None
    warnings: tuple[str, ...] = ()
    passthrough: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshRequest:
    """A request to the refresh endpoint (FLIP-448).

    `schedule_time` is 'yyyy-MM-dd HH:mm:ss' in the table's time zone. With `force`, a periodic refresh runs
    even if its sources have not changed. `trigger` describes what started the caller's own run, such as
    backfill, in the caller's words. `request_key` is the caller's idempotency key, `attempt` the caller's own
    count, `requested_by` the name of the caller's token, and `table_id` the uuid that the table is expected
    to have.
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
    trigger: str | None = None
    requested_by: str | None = None
