"""Statements about catalogs, jobs and jars in Flink's syntax: one frozen fact each; names are parts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from mt_core.model.connector_table import GeneratedRows, Watermark
from mt_core.model.kafka_topic import KafkaTopic
from mt_core.sql.statements import ColumnSpec, Name

_WILDCARDS = {"%": ".*", "*": ".*", "_": "."}


class Shown(StrEnum):
    """What SHOW lists, by the words after SHOW."""

    CATALOGS = "CATALOGS"
    DATABASES = "DATABASES"
    TABLES = "TABLES"
    VIEWS = "VIEWS"
    FUNCTIONS = "FUNCTIONS"
    USER_FUNCTIONS = "USER FUNCTIONS"
    PROCEDURES = "PROCEDURES"
    MODELS = "MODELS"
    MODULES = "MODULES"
    FULL_MODULES = "FULL MODULES"
    CURRENT_CATALOG = "CURRENT CATALOG"
    CURRENT_DATABASE = "CURRENT DATABASE"
    JARS = "JARS"
    JOBS = "JOBS"


class ExplainMode(StrEnum):
    """What EXPLAIN shows: Spark's modes, and the physical plan as JSON."""

    SIMPLE = "simple"
    EXTENDED = "extended"
    CODEGEN = "codegen"
    COST = "cost"
    FORMATTED = "formatted"
    JSON = "json"


def statement_at(text: str, start: int) -> str:
    """Return the statement inside *text* that begins at the offset *start*, with blanks before it so
    that its positions stay.
    """
    blank = "".join("\n" if letter == "\n" else " " for letter in text[:start])
    return blank + text[start:].rstrip().removesuffix(";")


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """[NOT] LIKE | ILIKE 'pattern': `%` and `*` match any text, `_` any letter."""

    text: str
    negated: bool = False
    any_case: bool = False

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        letters = "".join(_WILDCARDS.get(letter, re.escape(letter)) for letter in self.text)
        return re.compile(letters, re.DOTALL | (re.IGNORECASE if self.any_case else 0))

    def matches(self, name: str) -> bool:
        return (self._regex.fullmatch(name) is not None) is not self.negated


class CatalogStatement:
    """A statement about catalogs, functions, plans, jobs or jars."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowObjects(CatalogStatement):
    """SHOW kind [FROM | IN name] [[NOT] LIKE | ILIKE 'pattern']."""

    kind: Shown
    name: Name | None = None
    pattern: Pattern | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowColumns(CatalogStatement):
    """SHOW COLUMNS FROM | IN name [[NOT] LIKE 'pattern']."""

    name: Name
    pattern: Pattern | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowPartitions(CatalogStatement):
    """SHOW PARTITIONS name [PARTITION (…)]."""

    name: Name
    partition: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCreateRelation(CatalogStatement):
    """SHOW CREATE TABLE | VIEW name."""

    name: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCreateCatalog(CatalogStatement):
    """SHOW CREATE CATALOG name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeCatalog(CatalogStatement):
    """DESC[RIBE] CATALOG [EXTENDED] name."""

    name: str
    extended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDatabase(CatalogStatement):
    """DESC[RIBE] DATABASE [EXTENDED] name."""

    name: Name
    extended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeJob(CatalogStatement):
    """DESC[RIBE] JOB 'id'."""

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopJob(CatalogStatement):
    """STOP JOB 'id' [WITH SAVEPOINT [WITH DRAIN] | WITH DROP]."""

    job_id: str
    savepoint: bool = False
    drain: bool = False
    drop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain(CatalogStatement):
    """EXPLAIN [mode | PLAN FOR] statement; `statement`, which begins at the offset *start*,
    keeps its line and column.

    `changes` says that CHANGELOG_MODE is among the details.
    """

    mode: ExplainMode
    statement: str
    start: int = 0
    changes: bool = False

    def statement_in(self, text: str) -> str:
        """Return the statement that is explained, in *text*, with blanks before it so
        that its positions stay.
        """
        return statement_at(text, self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCatalog(CatalogStatement):
    """USE CATALOG name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCatalog(CatalogStatement):
    """CREATE CATALOG [IF NOT EXISTS] name [COMMENT 'text'] WITH (…)."""

    name: str
    options: Mapping[str, str]
    comment: str | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterCatalog(CatalogStatement):
    """ALTER CATALOG name SET (…) | RESET (…) | COMMENT 'text';
    `comment` None leaves the comment unchanged.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropCatalog(CatalogStatement):
    """DROP CATALOG [IF EXISTS] name."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddJar(CatalogStatement):
    """ADD JAR 'path'."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkStatement(CatalogStatement):
    """A statement in Flink's syntax; `spark_sql` is its equivalent in Spark's."""

    spark_sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateConnectorTable(SparkStatement):
    """CREATE [TEMPORARY] TABLE … WITH (…) [AS query]; `connector` is None for the catalog's own format.

    `keys` are those columns of its primary key, `all_keys`, that its catalog stores. `query` is at its
    line and column. If the statement has a list of `columns` and a query, `spark_sql` ends before AS:
    what follows depends on the columns of the query. `column_list` and `clauses` are what it says after
    the name, without AS. `options` are those of WITH. A temporary table with `unbounded` or `bounded` rows,
    and each over `kafka`, has no `spark_sql`: Spark has no statement for it. A table that stores no rows has
    in `rows` what a batch reads of it, unless it is over `kafka`, or temporary and not of `bounded` rows.
    """

    name: Name
    connector: str | None
    is_temporary: bool = False
    if_not_exists: bool = False
    keys: tuple[str, ...] = ()
    columns: tuple[ColumnSpec, ...] = ()
    query: str = ""
    or_replace: bool = False
    column_list: tuple[str, ...] = ()
    clauses: str = field(default="", repr=False)
    unbounded: GeneratedRows | None = None
    bounded: GeneratedRows | None = None
    kafka: KafkaTopic | None = None
    watermark: Watermark | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    comment: str | None = None
    partition_keys: tuple[str, ...] = ()
    all_keys: tuple[str, ...] = ()
    rows: str = field(default="", repr=False)

    @property
    def has_statement(self) -> bool:
        """Whether `spark_sql` creates it."""
        return bool(self.spark_sql)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTemporaryView(CatalogStatement):
    """DROP TEMPORARY TABLE | VIEW [IF EXISTS] name: a temporary table is a view too."""

    name: str
    if_exists: bool = False
