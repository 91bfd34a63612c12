"""The table of statements: the type, reader, traits and completion phrases of each kind of statement.

Many parts of the gateway must know something about a statement before it is parsed. They ask whether it needs
Spark, runs a job, may run out of turn, or can be completed. All of them look that up in this table. A new
statement therefore needs one row here and one reader, and no condition in those parts. The longest matching
sequence of first words selects the row. If there is no row, or the reader returns None, the statement is left
to Spark. The traits of a type must hold for all its statements, because the first words alone decide them.
The modules `changes`, `functions` and others are imported under other names, to serve as columns of the
table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from mt_core.sql.catalog import CatalogStatement, Shown
from mt_core.sql.connectors.connector_table import read_connector_table
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.flink import changes as changes
from mt_core.sql.readers import catalog_statements as catalogs
from mt_core.sql.readers import functions as functions
from mt_core.sql.readers import plan_statements as plans
from mt_core.sql.readers import properties as properties
from mt_core.sql.readers import refusals as refusals
from mt_core.sql.readers import table_statements as tables
from mt_core.sql.readers.create import create
from mt_core.sql.readers.refusals import refuse
from mt_core.sql.readers.views_elsewhere import readers as elsewhere
from mt_core.sql.statements import Statement

Reader = Callable[[TokenCursor, str], Statement | CatalogStatement | None]


class Trait(StrEnum):
    """A property that all statements of a kind have."""

    JOB = "runs a job on data"
    CHANGE = "changes data"
    CONFIGURES = "sets a session up"
    OUT_OF_TURN = "waits for no other statement of its session"
    QUICK = "costs less to answer than to hand to another thread"
    WITHOUT_ENGINE = "needs no Spark"
    ALONE = "can run in a session of its own"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementKind:
    """A row of the table.

    `type` is FLIP-91's name, or a name in the same style. The keys of `readers` are the first words of a
    statement. The longest matching key selects the reader; a reader that returns None leaves the text to
    Spark. `phrases` are the words that completion offers.
    """

    type: str
    traits: frozenset[Trait]
    readers: Mapping[str, Reader] = field(default_factory=dict)
    phrases: tuple[str, ...] = ()


_SHOWS, _DEFINES = frozenset({Trait.ALONE}), frozenset({Trait.ALONE, Trait.CONFIGURES})
_SETS_UP, _QUERIES = frozenset({Trait.CONFIGURES}), frozenset({Trait.ALONE, Trait.JOB})
_CHANGES, _OF_JOBS = _QUERIES | {Trait.CHANGE}, frozenset({Trait.OUT_OF_TURN, Trait.WITHOUT_ENGINE})
_WITHOUT_SPARK = frozenset({Trait.QUICK, Trait.WITHOUT_ENGINE})


def _kind(
    type_: str,
    traits: frozenset[Trait] = frozenset(),
    readers: Mapping[str, Reader] | None = None,
    phrases: tuple[str, ...] | None = None,
) -> StatementKind:
    """Return a statement kind. If *phrases* is None, completion offers the keys of the readers."""
    readers = dict(readers or {})
    return StatementKind(
        type=type_, traits=traits, readers=readers, phrases=tuple(readers) if phrases is None else phrases
    )


def _databases(verb: str) -> tuple[str, ...]:
    return tuple(f"{verb} {noun}" for noun in ("DATABASE", "SCHEMA", "NAMESPACE"))


def _show(type_: str, kind: Shown, *more: Trait) -> StatementKind:
    return _kind(type_, _SHOWS | {*more}, {f"SHOW {kind}": catalogs.show(kind)})


def _describe(type_: str, what: str, reader: Reader, *more: Trait) -> StatementKind:
    words = (f"DESCRIBE {what}".rstrip(), f"DESC {what}".rstrip())
    return _kind(type_, _SHOWS | {*more}, dict.fromkeys(words, reader), words[:1])


_NO_TEMPORARY = refuse(refusals.NO_TEMPORARY, views=True)
_TEMPORARY = ("TEMPORARY ", "TEMP ", "TEMPORARY SYSTEM ")
_MATERIALIZED_TABLES = (
    _kind(
        "CREATE_MATERIALIZED_TABLE",
        _DEFINES,
        {
            "CREATE MATERIALIZED": create,
            "CREATE OR ALTER MATERIALIZED": partial(create, or_alter=True),
            "CREATE OR REPLACE MATERIALIZED": refuse(refusals.NO_REPLACE, views=True),
            "CREATE TEMPORARY MATERIALIZED": _NO_TEMPORARY,
            "CREATE TEMP MATERIALIZED": _NO_TEMPORARY,
            "CREATE OR REPLACE TEMPORARY MATERIALIZED": _NO_TEMPORARY,
            "CREATE OR ALTER TEMPORARY MATERIALIZED": _NO_TEMPORARY,
        },
        ("CREATE MATERIALIZED TABLE", "CREATE OR ALTER MATERIALIZED TABLE"),
    ),
    _kind(
        "REFRESH",
        readers={
            "REFRESH MATERIALIZED": tables.refresh,
            **elsewhere("REFRESH", "MATERIALIZED VIEW"),
            **elsewhere("REFRESH", "DYNAMIC TABLE"),
        },
        phrases=("REFRESH MATERIALIZED TABLE",),
    ),
    _kind(
        "ALTER_MATERIALIZED_TABLE",
        _DEFINES,
        {"ALTER MATERIALIZED": tables.alter},
        ("ALTER MATERIALIZED TABLE",),
    ),
    _kind(
        "DROP_MATERIALIZED_TABLE",
        _DEFINES,
        {
            "DROP MATERIALIZED": tables.drop,
            "DROP TEMPORARY MATERIALIZED": _NO_TEMPORARY,
        },
        ("DROP MATERIALIZED TABLE",),
    ),
    _kind(
        "SHOW_MATERIALIZED_TABLES",
        _SHOWS,
        {"SHOW MATERIALIZED": tables.show_tables},
        ("SHOW MATERIALIZED TABLES", "SHOW MATERIALIZED TABLES EXTENDED"),
    ),
    _kind(
        "SHOW_CREATE_MATERIALIZED_TABLE",
        _SHOWS,
        {
            "SHOW CREATE MATERIALIZED": tables.show_create,
            "SHOW CREATE OR ALTER": partial(tables.show_create, or_alter=True),
        },
        ("SHOW CREATE MATERIALIZED TABLE",),
    ),
    _kind("VERIFY", _QUERIES, {"VERIFY MATERIALIZED": tables.verify}, ("VERIFY MATERIALIZED TABLE",)),
    _kind(
        "SHOW_REFRESHES",
        _SHOWS,
        {"SHOW REFRESHES": tables.show_refreshes},
        ("SHOW REFRESHES", "SHOW REFRESHES EXTENDED"),
    ),
    _kind(
        "SHOW_LINEAGE",
        _SHOWS,
        {"SHOW LINEAGE": tables.show_lineage},
        ("SHOW LINEAGE", "SHOW LINEAGE OF", "SHOW LINEAGE EXTENDED"),
    ),
    _describe("DESCRIBE", "", tables.describe),
    _kind(
        "EXPLAIN",
        _SHOWS,
        {
            "EXPLAIN": catalogs.read_explain,
            "EXPLAIN REFRESH": tables.explain_refresh,
            "EXPLAIN CREATE MATERIALIZED TABLE": tables.explain_create,
            "EXPLAIN CREATE OR ALTER MATERIALIZED TABLE": partial(tables.explain_create, or_alter=True),
        },
        (
            "EXPLAIN",
            *(
                f"EXPLAIN {what}"
                for what in ("SELECT", "INSERT INTO", "STATEMENT SET", "CREATE TABLE", "REFRESH", "PLAN")
            ),
            "EXPLAIN CREATE MATERIALIZED TABLE",
        ),
    ),
)
_JOBS = (
    _show("SHOW_JOBS", Shown.JOBS, *_OF_JOBS),
    _describe("DESCRIBE_JOB", "JOB", catalogs.describe_job, *_OF_JOBS),
    _kind("STOP_JOB", _OF_JOBS, {"STOP JOB": catalogs.stop_job}),
)
_PLANS = (
    _kind("COMPILE_PLAN", readers={"COMPILE PLAN": plans.compile_plan}),
    _kind("EXECUTE_PLAN", _CHANGES, {"EXECUTE PLAN": plans.execute_plan}),
    _kind(
        "COMPILE_AND_EXECUTE_PLAN",
        _CHANGES - {Trait.ALONE},
        {"COMPILE AND EXECUTE PLAN": partial(plans.compile_plan, execute=True)},
    ),
)
_SESSIONS = (
    _kind("SET", _SETS_UP | _WITHOUT_SPARK, {"SET": properties.set_property}),
    _kind("RESET", _SETS_UP | _WITHOUT_SPARK, {"RESET": properties.reset_property}),
    _kind("USE", _SETS_UP, phrases=("USE",)),
    _kind("USE_DATABASE", _SETS_UP),
    _kind("USE_CATALOG", _SETS_UP, {"USE CATALOG": catalogs.use_catalog}),
    *(
        _kind(words.replace(" ", "_"), _SETS_UP, {words: refuse(f"{words} {refusals.NO_MODULES}")}, phrases)
        for words, phrases in (("USE MODULES", None), ("LOAD MODULE", ()), ("UNLOAD MODULE", ()))
    ),
    _kind("ADD_JAR", _SETS_UP, {"ADD JAR": catalogs.add_jar}),
    _kind("REMOVE_JAR", readers={"REMOVE JAR": refuse(refusals.NO_REMOVAL)}, phrases=()),
    _show("SHOW_JARS", Shown.JARS, *_WITHOUT_SPARK),
    _show("SHOW_MODULES", Shown.MODULES, *_WITHOUT_SPARK),
    _show("SHOW_MODULES", Shown.FULL_MODULES, *_WITHOUT_SPARK),
)
_CATALOGS = (
    _kind("CREATE_CATALOG", _DEFINES, {"CREATE CATALOG": catalogs.create_catalog}),
    _kind("ALTER_CATALOG", _DEFINES, {"ALTER CATALOG": catalogs.alter_catalog}),
    _kind("DROP_CATALOG", _DEFINES, {"DROP CATALOG": catalogs.drop_catalog}),
    _show("SHOW_CATALOGS", Shown.CATALOGS, Trait.QUICK),
    _show("SHOW_CURRENT_CATALOG", Shown.CURRENT_CATALOG),
    _show("SHOW_CURRENT_DATABASE", Shown.CURRENT_DATABASE),
    _kind("SHOW_CREATE_CATALOG", _SHOWS, {"SHOW CREATE CATALOG": catalogs.show_create_catalog}),
    _describe("DESCRIBE_CATALOG", "CATALOG", catalogs.describe_catalog),
    _describe("DESCRIBE_DATABASE", "DATABASE", catalogs.describe_database),
    _show("SHOW_DATABASE", Shown.DATABASES),
    _show("SHOW_TABLES", Shown.TABLES),
    _show("SHOW_VIEWS", Shown.VIEWS),
    _show("SHOW_FUNCTIONS", Shown.FUNCTIONS),
    _show("SHOW_USER", Shown.USER_FUNCTIONS),
    _show("SHOW_PROCEDURES", Shown.PROCEDURES),
    _show("SHOW_MODELS", Shown.MODELS),
    _kind("SHOW_COLUMNS", _SHOWS, {"SHOW COLUMNS": catalogs.show_columns}),
    _kind("SHOW_PARTITIONS", _SHOWS, {"SHOW PARTITIONS": catalogs.show_partitions}),
    _kind("SHOW_CREATE_TABLE", _SHOWS, {"SHOW CREATE TABLE": catalogs.show_create_relation}),
    _kind("SHOW_CREATE_VIEW", _SHOWS, {"SHOW CREATE VIEW": catalogs.show_create_relation}),
    _kind(
        "CREATE_TABLE",
        _DEFINES,
        {
            "CREATE TABLE": read_connector_table,
            "CREATE OR REPLACE TABLE": read_connector_table,
            "CREATE TEMPORARY TABLE": read_connector_table,
            "CREATE OR REPLACE TEMPORARY TABLE": read_connector_table,
        },
        ("CREATE TABLE", "CREATE OR REPLACE TABLE"),
    ),
    _kind("REPLACE_TABLE", _SHOWS, {"REPLACE TABLE": read_connector_table}, ()),
    _kind("ALTER_TABLE", _DEFINES, {"ALTER TABLE": changes.alter_table}),
    _kind(
        "CREATE_DATABASE",
        _DEFINES,
        dict.fromkeys(_databases("CREATE"), changes.create_database),
        ("CREATE DATABASE",),
    ),
    _kind(
        "ALTER_DATABASE",
        _DEFINES,
        dict.fromkeys(_databases("ALTER"), changes.alter_database),
        ("ALTER DATABASE",),
    ),
    _kind(
        "CREATE_FUNCTION",
        _DEFINES,
        {
            f"CREATE {replacing}{temporary}FUNCTION": functions.create_function(
                temporary=bool(temporary), or_replace=bool(replacing)
            )
            for replacing in ("", "OR REPLACE ")
            for temporary in ("", *_TEMPORARY)
        },
        ("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", "CREATE TEMPORARY FUNCTION"),
    ),
    _kind(
        "ALTER_FUNCTION",
        _DEFINES,
        {
            "ALTER FUNCTION": functions.alter_function,
            **{f"ALTER {temporary}FUNCTION": functions.alter_temporary_function for temporary in _TEMPORARY},
        },
        ("ALTER FUNCTION",),
    ),
    _kind(
        "DROP_FUNCTION",
        _DEFINES,
        {
            f"DROP {temporary}FUNCTION": functions.drop_function(temporary=bool(temporary))
            for temporary in ("", *_TEMPORARY)
        },
        ("DROP FUNCTION", "DROP TEMPORARY FUNCTION"),
    ),
    _kind("SHOW_CREATE_FUNCTION", _SHOWS, {"SHOW CREATE FUNCTION": functions.show_create_function}),
    _describe("DESCRIBE", "FUNCTION", functions.describe_function),
    _kind("DROP_TABLE", _DEFINES, {"DROP TEMPORARY TABLE": changes.drop_temporary}, ("DROP TABLE",)),
    _kind("DROP_VIEW", _DEFINES, {"DROP TEMPORARY VIEW": changes.drop_temporary}, ("DROP VIEW",)),
)
# Statements that Spark parses.
_SPARKS = (
    _kind("SELECT", _QUERIES, phrases=("SELECT", "VALUES", "WITH")),
    _kind("INSERT", _CHANGES, phrases=("INSERT INTO", "INSERT OVERWRITE")),
    _kind("UPDATE", _CHANGES, phrases=("UPDATE",)),
    _kind("DELETE", _CHANGES, phrases=("DELETE FROM",)),
    _kind("MERGE", _CHANGES, phrases=("MERGE INTO",)),
    _kind("CREATE_TABLE_AS", _CHANGES),
    _kind("REPLACE_TABLE_AS", _CHANGES),
    _kind("STATEMENT_SET", _CHANGES, phrases=("EXECUTE STATEMENT SET BEGIN", "END")),
    _kind("BEGIN_STATEMENT", phrases=("BEGIN STATEMENT SET",)),
    _kind(
        "CREATE_VIEW",
        _DEFINES,
        phrases=(
            "CREATE VIEW",
            "CREATE TEMPORARY VIEW",
            "CREATE OR REPLACE VIEW",
            "CREATE OR REPLACE TEMPORARY VIEW",
        ),
    ),
    *(
        _kind(f"{verb}_{noun}", _DEFINES, phrases=(f"{verb} {noun}",))
        for verb, nouns in {
            "ALTER": ("VIEW",),
            "DROP": ("DATABASE",),
        }.items()
        for noun in nouns
    ),
    *(_kind(f"{verb}_MODEL", _DEFINES) for verb in ("CREATE", "ALTER", "DROP")),
    _kind("DESCRIBE", _SHOWS, phrases=("DESCRIBE EXTENDED", "DESCRIBE TABLE")),
    _kind("SHOW_TBLPROPERTIES", _SHOWS, phrases=("SHOW TBLPROPERTIES",)),
)

# Statements of other systems, which are refused and not offered by completion.
_ELSEWHERE = tuple(
    _kind(f"{verb}_{type_}", _SHOWS if verb == "SHOW" else _DEFINES, elsewhere(verb, noun), ())
    for verb in ("CREATE", "ALTER", "DROP", "SHOW")
    for type_, noun in (
        (f"MATERIALIZED_VIEW{'S' if verb == 'SHOW' else ''}", "MATERIALIZED VIEW"),
        ("DYNAMIC", "DYNAMIC TABLE"),
    )
)

KINDS: tuple[StatementKind, ...] = (
    *(*_MATERIALIZED_TABLES, *_ELSEWHERE),
    *(*_JOBS, *_PLANS, *_SESSIONS, *_CATALOGS, *_SPARKS),
)
_READERS: Mapping[str, Reader] = {words: reader for kind in KINDS for words, reader in kind.readers.items()}
_TRAITS: Mapping[str, frozenset[Trait]] = {kind.type: kind.traits for kind in KINDS}
PHRASES: frozenset[str] = frozenset(phrase for kind in KINDS for phrase in kind.phrases)
MOST_WORDS = max(words.count(" ") + 1 for words in _READERS)
_SESSIONLESS_VERBS = ("CREATE", "ALTER", "DROP", "SHOW", "EXPLAIN", "DESCRIBE")


def traits_of(type_: str) -> frozenset[Trait]:
    """Return the traits of a type, even if the table has no row for it."""
    return _TRAITS.get(type_, _SHOWS if type_.startswith(_SESSIONLESS_VERBS) else frozenset())


def reader_of(words: Sequence[str]) -> tuple[Reader | None, Sequence[str]]:
    """Return the reader, and its key, for statements that begin with *words*.

    The reader is None if Spark parses the statement.
    """
    for length in range(min(len(words), MOST_WORDS), 0, -1):
        if reader := _READERS.get(" ".join(words[:length])):
            return reader, words[:length]
    return None, ()
