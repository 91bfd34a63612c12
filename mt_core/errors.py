"""The errors that Freshtable raises.

    MtError
    ├── ConfigError               a setting, a file or the machine is unsuitable
    │   ├── HomeLocked            another gateway uses the home folder
    │   ├── RegistryInUse         another gateway uses the registry
    │   ├── PortInUse             the address of the gateway is taken
    │   ├── JavaMissing           no JDK that Spark can use was found
    │   └── PluginError           a workflow scheduler is not installed, or installed twice
    ├── SqlSyntaxError            the text of a statement cannot be parsed
    ├── DefinitionInvalid         a CREATE or ALTER does not fit the query or the catalog
    │   └── CatalogUnsupported    the catalog cannot hold materialized tables
    ├── RequestInvalid            a parameter of a request cannot be used
    ├── SchedulerNotUsed          the gateway is configured for another workflow scheduler
    ├── Unsupported               recognized but not supported
    ├── TableNotFound             no table has the name
    ├── NotMaterializedTable      the name belongs to something else
    ├── TableProtected            a statement for tables would change a materialized table
    ├── TableExists               the name is already in use
    ├── TableNotCreated           a step of CREATE failed, and CREATE undid the others
    ├── TableGone                 the table was dropped or recreated since
    ├── TableInitializing         the table is still being created
    ├── TableBusy                 another command is in progress on the table
    ├── IllegalStatus             the status of the table or operation does not allow it
    │   └── Incomparable          the rows of a table cannot be compared with those of its query
    ├── RefreshFailed             a refresh run ended FAILED or CANCELED
    │   └── QueryBroken           Spark can no longer resolve its query
    ├── QueryFailed               Spark refused or failed a query
    ├── Canceled                  the work was cancelled on request
    ├── StatementTimedOut         the work took longer than it may
    ├── EngineUnavailable         Spark is starting or restarting
    │   └── ClusterLost           Spark's cluster accepts no work
    ├── EngineError               Spark or the table format failed
    │   └── StorageMissing        the storage table is missing
    ├── WorkflowError             the workflow scheduler failed (FLIP-448 WorkflowException)
    ├── RegistryError             the registry failed
    │   └── RegistryFull          the disk of its database is full
    ├── SessionNotFound           no such session, or it expired
    ├── SessionLimit              too many sessions are open
    ├── GatewayBusy               the gateway has no capacity left
    ├── OperationNotFound         no such operation, or it was closed
    └── GatewayError              the gateway answered a client with an error, or not at all

`code` is the machine-readable name (header `Freshtable-Error`); `http_status` is the status of the v3
refresh endpoint's answer. On an error of an `internal` class the gateway reads the facts again and retries;
if such an error reaches a user, it has its parent's code.
"""

from __future__ import annotations

from collections.abc import Mapping

Fact = str | int


class MtError(Exception):
    """The root of all errors: a message that names the object and the remedy, and *facts* for programs.

    Facts identify what the error is about: `table`, `key` and `value` of an option, `line` and `column`. The
    message is formatted from them once; code reads `facts`, never the message.
    """

    code = "INTERNAL"
    http_status = 500
    internal = False

    def __init__(self, message: str, **facts: Fact | None) -> None:
        super().__init__(message)
        self.message = message
        self.facts: dict[str, Fact] = {name: fact for name, fact in facts.items() if fact is not None}


class ConfigError(MtError):
    """A setting, a file or the machine does not meet what the gateway needs."""

    code = "CONFIG_INVALID"


class HomeLocked(ConfigError):
    """Another gateway uses the home folder."""

    code = "HOME_LOCKED"


class RegistryInUse(ConfigError):
    """Another gateway uses the registry."""

    code = "REGISTRY_IN_USE"


class PortInUse(ConfigError):
    """Another process uses the gateway's address."""

    code = "PORT_IN_USE"


class JavaMissing(ConfigError):
    """No JDK that Spark can use was found."""

    code = "JAVA_MISSING"


class PluginError(ConfigError):
    """A workflow scheduler is not installed, or two claim one identifier."""

    code = "PLUGIN_INVALID"


class SqlSyntaxError(MtError):
    """The text of a statement cannot be parsed; `line` and `column` count from 1."""

    code = "SQL_SYNTAX"
    http_status = 400

    def __init__(self, message: str, *, line: int = 1, column: int = 1, **facts: Fact | None) -> None:
        super().__init__(message, line=line, column=column, **facts)
        self.line, self.column = line, column

    def __str__(self) -> str:
        return f"{self.message} (line {self.line}, column {self.column})"


class DefinitionInvalid(MtError):
    """A CREATE or ALTER names something that does not fit the query or the catalog."""

    code = "DEFINITION_INVALID"
    http_status = 400


class CatalogUnsupported(DefinitionInvalid):
    """The catalog cannot hold materialized tables."""

    code = "CATALOG_UNSUPPORTED"


class RequestInvalid(MtError):
    """A parameter of a request cannot be used."""

    code = "REQUEST_INVALID"
    http_status = 400


class SchedulerNotUsed(MtError):
    """A scheduler that this gateway is not configured to use requests workflows."""

    code = "SCHEDULER_NOT_USED"
    http_status = 404


class Unsupported(MtError):
    """The gateway recognizes the statement or option but does not support it; the message names the
    way out.
    """

    code = "UNSUPPORTED"
    http_status = 400


class TableNotFound(MtError):
    """No table with this name exists."""

    code = "TABLE_NOT_FOUND"
    http_status = 404


class NotMaterializedTable(MtError):
    """The name belongs to a table or view that is not a materialized table."""

    code = "NOT_MATERIALIZED_TABLE"
    http_status = 400


class TableProtected(MtError):
    """A statement for tables would change a materialized table; `table` is its name."""

    code = "TABLE_PROTECTED"
    http_status = 409

    def __init__(self, message: str, *, table: str) -> None:
        super().__init__(message, table=table)
        self.table = table


class TableExists(MtError):
    """Another object with this name already exists."""

    code = "TABLE_EXISTS"
    http_status = 409


class TableNotCreated(MtError):
    """A step of CREATE MATERIALIZED TABLE failed, and the statement undid the steps before it."""

    code = "TABLE_NOT_CREATED"


class TableGone(MtError):
    """The table of a request was dropped, or recreated under the same name."""

    code = "TABLE_GONE"
    http_status = 410


class TableInitializing(MtError):
    """CREATE of the table is in progress; repeat the request after `retry_after_s` seconds."""

    code = "TABLE_INITIALIZING"
    http_status = 503
    retry_after_s = 2


class TableBusy(MtError):
    """Another command is in progress on the table."""

    code = "TABLE_BUSY"
    http_status = 409


class IllegalStatus(MtError):
    """The status of a table, run or operation does not allow the request."""

    code = "ILLEGAL_STATUS"
    http_status = 409


class RequestKeyReused(MtError):
    """A request has the Idempotency-Key of another request for the same table."""

    code = "REQUEST_KEY_REUSED"
    http_status = 409


class Incomparable(IllegalStatus):
    """The rows of a table cannot be compared with those of its query."""

    code = "INCOMPARABLE"


class RefreshFailed(MtError):
    """A refresh run that a caller waits for ended FAILED or CANCELED."""

    code = "REFRESH_FAILED"


class QueryBroken(RefreshFailed):
    """Spark can no longer resolve the query of a refresh, or the query no longer fits its table;
    each refresh would fail.
    """

    code = "QUERY_BROKEN"


class QueryFailed(MtError):
    """Spark refused or failed a query.

    `error_class` and `sqlstate` come from Spark. These, `line` and `position` are None if Spark does not
    report them.
    """

    code = "QUERY_FAILED"
    http_status = 400

    def __init__(
        self,
        message: str,
        *,
        error_class: str | None = None,
        sqlstate: str | None = None,
        line: int | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(message, error_class=error_class, sqlstate=sqlstate, line=line, column=position)
        self.error_class, self.sqlstate, self.line, self.position = error_class, sqlstate, line, position

    def __str__(self) -> str:
        if None in (self.line, self.position):
            return self.message
        return f"{self.message} (line {self.line}, position {self.position})"

    def reworded(self, message: str, *, line: int | None = None, position: int | None = None) -> QueryFailed:
        """Return an error of the same class with another message and with a position in another text."""
        return QueryFailed(
            message, error_class=self.error_class, sqlstate=self.sqlstate, line=line, position=position
        )


class Canceled(MtError):
    """The work was cancelled on request."""

    code = "CANCELED"
    http_status = 409


class StatementTimedOut(MtError):
    """A statement took longer than its request or its session allows, and the gateway ended it."""

    code = "STATEMENT_TIMED_OUT"
    http_status = 504


class EngineUnavailable(MtError):
    """Spark is starting, or restarting after its process ended.

    `alone` is True if the failed work was the only work in the process, so nothing else can be the cause.
    """

    code = "ENGINE_UNAVAILABLE"
    http_status = 503
    retry_after_s = 5

    def __init__(self, message: str, *, alone: bool = False) -> None:
        super().__init__(message)
        self.alone = alone


class ClusterLost(EngineUnavailable):
    """Spark's cluster accepted no work for too long; the gateway restarts Spark
    until the cluster accepts work.
    """

    code = "CLUSTER_LOST"


class EngineError(MtError):
    """Spark or the table format failed in a way that is not the query's fault."""

    code = "ENGINE_FAILED"


class StorageMissing(EngineError):
    """The storage table of a materialized table is not in its catalog."""

    code = "STORAGE_MISSING"


class CommitConflict(EngineError):
    """A commit to a table failed because of another commit.

    The caller reads the metadata and decides again.
    """

    internal = True


class CommitUnknown(EngineError):
    """A commit was sent, but its outcome is unknown. The caller must read the metadata again."""

    internal = True


class SourcesChanged(EngineError):
    """A view or the schema of a source changed between inspection and reading.

    The caller inspects it again.
    """

    internal = True


class WorkflowError(MtError):
    """The workflow scheduler refused or failed an operation (FLIP-448 WorkflowException)."""

    code = "WORKFLOW_FAILED"


class RegistryError(MtError):
    """The registry failed."""

    code = "REGISTRY_FAILED"


class RegistryFull(RegistryError):
    """The disk of the registry's database is full: writes fail until there is room."""

    code = "DISK_FULL"


class RevisionConflict(RegistryError):
    """A row changed, or a unique key was taken, between reading and writing."""

    internal = True


class FactUnreadable(RegistryError):
    """A registry row cannot be decoded: another release wrote it, or it is damaged.

    `columns` are the row's values outside its JSON body; `position` is its index among the rows of the same
    read.
    """

    internal = True

    def __init__(self, message: str, *, columns: Mapping[str, object], position: int = 0) -> None:
        super().__init__(message)
        self.columns, self.position = columns, position


class SessionNotFound(MtError):
    """The session does not exist, or it expired."""

    code = "SESSION_NOT_FOUND"
    http_status = 404


class SessionLimit(MtError):
    """Too many sessions are open."""

    code = "SESSION_LIMIT"
    http_status = 503


class GatewayBusy(MtError):
    """The gateway has no capacity left; repeat the request after `retry_after_s` seconds."""

    code = "GATEWAY_BUSY"
    http_status = 503
    retry_after_s = 1


class OperationNotFound(MtError):
    """The operation does not exist, or it was closed."""

    code = "OPERATION_NOT_FOUND"
    http_status = 404


class GatewayError(MtError):
    """The gateway answered a client with an error, which has the same code and facts, or did not answer.

    `request_id` is the id of the request in the gateway's log, or None if it did not answer.
    """

    code = "GATEWAY_FAILED"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        facts: Mapping[str, Fact] | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, **(facts or {}))
        self.code, self.request_id = code or self.code, request_id


class SessionLost(GatewayError):
    """A client's session ended on the gateway; `changes` are the statements whose effect was lost with it."""

    code = "SESSION_LOST"

    def __init__(self, message: str, changes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.changes = changes
