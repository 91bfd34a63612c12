"""What is asked of the manager, and what it answers: a statement's context and outcome,
and a call of the refresh endpoint.
"""

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
    """The session a statement comes from: where its names are looked up, and the properties
    that differ from the defaults.

    `caller` is the name of the token that the statement was sent with, "" where none is asked for. `zone`
    is the time zone of its queries (None: that of its properties, or the default); `temporary_relations`
    and `temporary_functions` are the names, in lower case, that it has for itself alone; `has_variable` says
    whether it has a variable of a name. `job_id` is that of the statement's work.
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
    """The result of a statement. `rows` None means "OK"; `wait_for` is a run that the operation has to
    wait for; `created` is the table whose CREATE ends with that run, and `recomputed` its freshness if
    each change of a source computes all of it; `passthrough` says that DESCRIBE is of a table or view
    that is not materialized."""

    rows: RowSet | None = None
    wait_for: str | None = None
    created: TableIdentifier | None = None
    recomputed: Freshness | None = None
    warnings: tuple[str, ...] = ()
    passthrough: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshRequest:
    """A call of the refresh endpoint (FLIP-448): `schedule_time` is 'yyyy-MM-dd HH:mm:ss'
    in the table's zone.

    With `force` a periodic refresh is done even if its sources are unchanged; `trigger` is what began
    the caller's own run, in its words, such as backfill; `request_key` is the caller's idempotency key,
    `table_id` the uuid the caller means, `attempt` the caller's own count, `requested_by` the name
    of the caller's token.
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
