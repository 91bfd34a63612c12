"""Statements about materialized tables and properties, each as an immutable object.

These objects connect the grammar with the commands of the gateway. An object contains exactly what the
statement says. An absent clause is None; defaults are applied later, when the session's settings and the
stored table are known. Names are tuples of parts until `qualify` completes them with the current catalog and
namespace. A query remains a string with its line and column, so that an error of Spark's is reported at its
place in the user's statement. Like the objects in `catalog.py` they can be compared, which makes them easy to
test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mt_core.base.identifiers import Namespace
from mt_core.model.cron import Cron
from mt_core.model.freshness import Freshness
from mt_core.model.partition import PartitionValues
from mt_core.model.run import RunStatus
from mt_core.model.table import RefreshMode, TableIdentifier
from mt_core.model.transform import Transform

Name = tuple[str, ...]


def qualify(name: Name, catalog: str, namespace: Namespace) -> TableIdentifier:
    """Return the identifier of *name* in a session with this current catalog and namespace.

    A single part names a table in the namespace. Two parts name a namespace and a table. Three or more parts
    begin with the catalog.
    """
    match name:
        case (table,):
            return TableIdentifier(catalog, namespace, table)
        case (space, table):
            return TableIdentifier(catalog, (space,), table)
        case (first, *middle, table):
            return TableIdentifier(first, tuple(middle), table)
        case _:
            raise ValueError("a name has at least one part")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSpec:
    """A column in a CREATE list; `type` is the text as written, or None in a list of bare names."""

    name: str
    type: str | None = None
    nullable: bool = True
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateMaterializedTable:
    """CREATE [OR ALTER] MATERIALIZED TABLE; absent clauses are None.

    `cron` and `zone` come from SCHEDULE CRON '…' AT TIME ZONE '…'. `query` is the text after AS, unchanged;
    `query_line` and `query_column` are its position in the statement.
    """

    name: Name
    or_alter: bool = False
    columns: tuple[ColumnSpec, ...] | None = None
    comment: str | None = None
    partition_keys: tuple[str, ...] = ()
    transforms: tuple[Transform, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    freshness: Freshness | None = None
    cron: Cron | None = None
    zone: str | None = None
    refresh_mode: RefreshMode | None = None
    query: str
    query_line: int
    query_column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendTable:
    """ALTER MATERIALIZED TABLE name SUSPEND."""

    name: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeTable:
    """ALTER MATERIALIZED TABLE name RESUME [WITH (…)]; `options` is empty without WITH."""

    name: Name
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshTable:
    """ALTER MATERIALIZED TABLE name REFRESH [PARTITION (…)]. Empty `partitions` mean the whole table."""

    name: Name
    partitions: Mapping[str, PartitionValues] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRefreshMode:
    """ALTER MATERIALIZED TABLE name SET REFRESH_MODE = FULL | CONTINUOUS."""

    name: Name
    mode: RefreshMode


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFreshness:
    """ALTER MATERIALIZED TABLE name SET FRESHNESS = INTERVAL 'n' unit."""

    name: Name
    freshness: Freshness


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSchedule:
    """ALTER MATERIALIZED TABLE name SET SCHEDULE CRON '…' [AT TIME ZONE '…'].

    `zone` is None if the statement has no AT TIME ZONE.
    """

    name: Name
    cron: Cron
    zone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterOptions:
    """ALTER MATERIALIZED TABLE name SET ('key' = 'value', …) | RESET ('key', …)."""

    name: Name
    options: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterQuery:
    """ALTER MATERIALIZED TABLE name AS query; the positions are those of CreateMaterializedTable."""

    name: Name
    query: str
    query_line: int
    query_column: int


class DropBehavior(StrEnum):
    """How DROP treats the materialized tables that read the dropped table."""

    RESTRICT = "RESTRICT"
    CASCADE = "CASCADE"


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable:
    """DROP MATERIALIZED TABLE [IF EXISTS] name [RESTRICT | CASCADE].

    RESTRICT refuses to drop a table that other materialized tables read. CASCADE drops those tables too. With
    neither, they remain.
    """

    name: Name
    if_exists: bool = False
    behavior: DropBehavior | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowMaterializedTables:
    """SHOW MATERIALIZED TABLES [{FROM|IN} namespace] [[NOT] LIKE 'pattern'] [EXTENDED] [LATE]."""

    namespace: Name | None = None
    like: str | None = None
    negated: bool = False
    extended: bool = False
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCreateTable:
    """SHOW CREATE [OR ALTER] MATERIALIZED TABLE name."""

    name: Name
    or_alter: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTable:
    """DESC[RIBE] [TABLE] [EXTENDED] name.

    `text` is the statement that Spark executes if the table is not a materialized table.
    """

    name: Name
    extended: bool = False
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowRefreshes:
    """SHOW REFRESHES [FOR name] [WHERE status = 'STATUS'] [EXTENDED] [LIMIT n],
    or SHOW REFRESHES FOR name BATCHES [LIMIT n].
    """

    name: Name | None = None
    batches: bool = False
    status: RunStatus | None = None
    extended: bool = False
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowLineage:
    """SHOW LINEAGE [OF name] [EXTENDED]. Without a name, it shows the lineage of all materialized tables."""

    name: Name | None = None
    extended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainRefresh:
    """EXPLAIN REFRESH name [PARTITION (…)]."""

    name: Name
    partitions: Mapping[str, PartitionValues] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyTable:
    """VERIFY MATERIALIZED TABLE name [SAMPLE n [PERCENT]]."""

    name: Name
    percent: float = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainCreate:
    """EXPLAIN CREATE [OR ALTER] MATERIALIZED TABLE …; positions in `statement` are in the whole text."""

    statement: CreateMaterializedTable

    @property
    def name(self) -> Name:
        return self.statement.name


@dataclass(frozen=True, slots=True, kw_only=True)
class SetProperty:
    """SET; SET key; SET key = value.

    Without a key, SET lists all properties; without a value, it returns the value of the key.
    """

    key: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetProperty:
    """RESET; RESET key. Without a key, RESET resets all properties."""

    key: str | None = None


TableStatement = (
    CreateMaterializedTable
    | SuspendTable
    | ResumeTable
    | RefreshTable
    | SetFreshness
    | SetSchedule
    | SetRefreshMode
    | AlterOptions
    | AlterQuery
    | DropTable
    | ShowMaterializedTables
    | ShowCreateTable
    | DescribeTable
    | ShowRefreshes
    | ShowLineage
    | ExplainRefresh
    | VerifyTable
    | ExplainCreate
)
Statement = TableStatement | SetProperty | ResetProperty
