"""Statements about catalogs, tables, jobs and jars in Flink's syntax, each as an immutable object.

A gateway accepts Flink's statements, but Spark executes them. Parsing, deciding and executing are therefore
separate steps. A reader (`readers/`, `connectors/`, `flink/`) turns the text into one of these objects. An
object has no session and does nothing, so tests can compare it and any thread can use it. A statement that
Spark can execute after a translation becomes a `SparkStatement` with the equivalent text. A statement that no
reader accepts goes to Spark unchanged. Names remain tuples of parts, because only the executor knows the
current catalog and database. Positions in an object always refer to the text that the client sent; for this,
the text of an inner statement is padded with blanks (`statement_at`).
"""

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
    """The kinds of objects that SHOW lists, named by the words after SHOW."""

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
    """The output of EXPLAIN: one of Spark's modes, or the physical plan as JSON."""

    SIMPLE = "simple"
    EXTENDED = "extended"
    CODEGEN = "codegen"
    COST = "cost"
    FORMATTED = "formatted"
    JSON = "json"


def statement_at(text: str, start: int) -> str:
    """Return the statement at offset *start* of *text*, padded with blanks to keep its positions."""
    blank = "".join("\n" if letter == "\n" else " " for letter in text[:start])
    return blank + text[start:].rstrip().removesuffix(";")


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """[NOT] LIKE | ILIKE 'pattern': `%` and `*` match any string, `_` any character."""

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
    """Base class of statements about catalogs, functions, plans, jobs or jars."""

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
    """EXPLAIN [mode | PLAN FOR] statement.

    The explained `statement` begins at offset `start` and has its original positions. `changes` is True if
    CHANGELOG_MODE is among the details.
    """

    mode: ExplainMode
    statement: str
    start: int = 0
    changes: bool = False

    def statement_in(self, text: str) -> str:
        """Return the explained statement within *text*, padded with blanks to keep its positions."""
        return statement_at(text, self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCatalog(CatalogStatement):
    """USE CATALOG name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCatalog(CatalogStatement):
    """CREATE CATALOG [IF NOT EXISTS] name [COMMENT 'text'] WITH (…).

    The options may contain passwords, so the repr omits them.
    """

    name: str
    options: Mapping[str, str] = field(repr=False)
    comment: str | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterCatalog(CatalogStatement):
    """ALTER CATALOG name SET (…) | RESET (…) | COMMENT 'text'.

    If `comment` is None, the comment remains unchanged. The options may contain passwords, so the repr omits
    them.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
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
    """A statement in Flink's syntax; `spark_sql` is the equivalent statement in Spark's syntax."""

    spark_sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateConnectorTable(SparkStatement):
    """CREATE [TEMPORARY] TABLE … WITH (…) [AS query]; `connector` is None for the catalog's own format.

    `all_keys` is the primary key, and `keys` the part of it that the catalog stores. `query` is padded to its
    original line and column. If the statement has both a list of `columns` and a query, `spark_sql` ends
    before AS, because the rest depends on the columns of the query. `column_list` and `clauses` are the text
    after the name, without AS; `options` are those of the WITH clause.

    Spark has no statement for Kafka tables or for temporary tables with `unbounded` or `bounded` rows, so
    their `spark_sql` is empty. For a table that stores no rows, `rows` is the query for batch reads. It is
    empty for Kafka tables and for temporary tables without `bounded` rows.
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
        """Whether `spark_sql` creates the table."""
        return bool(self.spark_sql)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTemporaryView(CatalogStatement):
    """DROP TEMPORARY TABLE | VIEW [IF EXISTS] name.

    Either form drops both kinds of objects, because a temporary table is stored as a view.
    """

    name: str
    if_exists: bool = False
