"""Readers of statements about catalogs, jobs and jars; None leaves a statement to Spark as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mt_core.errors import Unsupported
from mt_core.sql.catalog import (
    AddJar,
    AlterCatalog,
    CatalogStatement,
    CreateCatalog,
    DescribeCatalog,
    DescribeDatabase,
    DescribeJob,
    DropCatalog,
    Explain,
    ExplainMode,
    Pattern,
    ShowColumns,
    ShowCreateCatalog,
    ShowCreateRelation,
    Shown,
    ShowObjects,
    ShowPartitions,
    StopJob,
    UseCatalog,
)
from mt_core.sql.cursor import Cursor
from mt_core.sql.statements import DescribeTable
from mt_core.tokens import TokenKind

Reader = Callable[[Cursor, str], CatalogStatement | DescribeTable | None]
_IN_A_NAMESPACE = {
    Shown.DATABASES,
    Shown.TABLES,
    Shown.VIEWS,
    Shown.FUNCTIONS,
    Shown.USER_FUNCTIONS,
    Shown.PROCEDURES,
    Shown.MODELS,
}
NO_MODULES = "Spark has no modules: its built-in functions are always there; ADD JAR and reflect('class', 'method', …) call others."
NO_REMOVAL = "REMOVE JAR is not supported: classes cannot be taken back; open a new session, or restart the gateway."
_NO_SAVEPOINT = "is not supported: jobs here are batch jobs without savepoints; use STOP JOB 'id'."


# ----------------------------------------------------------------------------------------------------------------- SHOW


def show(kind: Shown) -> Reader:
    def read(cursor: Cursor, text: str) -> CatalogStatement | None:
        name = None
        if kind in _IN_A_NAMESPACE and (cursor.accept("FROM") or cursor.accept("IN")):
            name = cursor.name("a catalog" if kind is Shown.DATABASES else "a database")
        pattern = _pattern(cursor)
        return ShowObjects(kind=kind, name=name, pattern=pattern) if cursor.at_end else None

    return read


def _pattern(cursor: Cursor) -> Pattern | None:
    ahead = 1 if cursor.keyword() == "NOT" else 0
    word, text = cursor.keyword(ahead), cursor.peek(ahead + 1)
    if word not in {"LIKE", "ILIKE"} or text is None or text.kind is not TokenKind.STRING:
        return None
    for _ in range(ahead + 2):
        cursor.take()
    return Pattern(text=text.value, negated=bool(ahead), any_case=word == "ILIKE")


def show_columns(cursor: Cursor, text: str) -> CatalogStatement | None:
    if not (cursor.accept("FROM") or cursor.accept("IN")):
        return None
    name = cursor.name("a table")
    pattern = _pattern(cursor)
    # Spark has a second FROM, for the database.
    return ShowColumns(name=name, pattern=pattern) if cursor.at_end else None


def show_partitions(cursor: Cursor, text: str) -> CatalogStatement | None:
    name = cursor.name("a table")
    partition = cursor.partition_spec() if cursor.accept("PARTITION") else {}
    cursor.expect_end("PARTITION (…), or the end of the statement")
    return ShowPartitions(name=name, partition=partition)


def show_create_relation(cursor: Cursor, text: str) -> CatalogStatement | None:
    name = cursor.name("a table or view")
    return ShowCreateRelation(name=name) if cursor.at_end else None


def show_create_catalog(cursor: Cursor, text: str) -> CatalogStatement | None:
    name = cursor.identifier("the name of a catalog")
    cursor.expect_end()
    return ShowCreateCatalog(name=name)


# ------------------------------------------------------------------------------------------------------------- DESCRIBE


def describe_catalog(cursor: Cursor, text: str) -> CatalogStatement | DescribeTable | None:
    if cursor.at_end:
        return DescribeTable(name=("catalog",), text=text)
    extended = _extended(cursor)
    name = cursor.identifier("the name of a catalog")
    cursor.expect_end()
    return DescribeCatalog(name=name, extended=extended)


def describe_database(cursor: Cursor, text: str) -> CatalogStatement | DescribeTable | None:
    if cursor.at_end:
        return DescribeTable(name=("database",), text=text)
    extended = _extended(cursor)
    name = cursor.name("the name of a database")
    cursor.expect_end()
    return DescribeDatabase(name=name, extended=extended)


def _extended(cursor: Cursor) -> bool:
    return cursor.peek(1) is not None and cursor.accept("EXTENDED")


def describe_job(cursor: Cursor, text: str) -> CatalogStatement | DescribeTable | None:
    if cursor.at_end:
        return DescribeTable(name=("job",), text=text)
    job_id = cursor.string("a job id in quotes")
    cursor.expect_end()
    return DescribeJob(job_id=job_id)


def stop_job(cursor: Cursor, text: str) -> CatalogStatement | None:
    job_id = cursor.string("a job id in quotes")
    if cursor.accept("WITH"):
        raise Unsupported(f"STOP JOB … WITH {cursor.keyword()} {_NO_SAVEPOINT}")
    cursor.expect_end()
    return StopJob(job_id=job_id)


# -------------------------------------------------------------------------------------------------------------- EXPLAIN

_SPARK_MODES = {mode.value.upper(): mode for mode in ExplainMode if mode not in {ExplainMode.SIMPLE, ExplainMode.JSON}}
_FLINK_DETAILS = {
    "ESTIMATED_COST": ExplainMode.COST,
    "JSON_EXECUTION_PLAN": ExplainMode.JSON,
    # Batch results only grow, and Spark gives no advice: there is nothing to add to the plan.
    "CHANGELOG_MODE": ExplainMode.SIMPLE,
    "PLAN_ADVICE": ExplainMode.SIMPLE,
}


def read_explain(cursor: Cursor, text: str) -> Explain:
    """Read what follows EXPLAIN: Flink's details, PLAN FOR, or Spark's modes, then a statement."""
    mode = ExplainMode.SIMPLE
    if cursor.keyword() in _SPARK_MODES:
        mode = _SPARK_MODES[cursor.keyword()]
        cursor.take()
    elif cursor.keyword() in _FLINK_DETAILS:
        mode = max(_details(cursor), key=list(ExplainMode).index)
    else:
        cursor.accept("PLAN", "FOR")
    first = cursor.peek()
    if first is None:
        raise cursor.error("a statement to explain")
    blank = "".join("\n" if letter == "\n" else " " for letter in text[: first.start])
    return Explain(mode=mode, statement=blank + text[first.start :].rstrip().removesuffix(";"))


def _details(cursor: Cursor) -> list[ExplainMode]:
    found = []
    while True:
        detail = _FLINK_DETAILS.get(cursor.keyword())
        if detail is None:
            raise cursor.error(", ".join(_FLINK_DETAILS))
        cursor.take()
        found.append(detail)
        if not cursor.accept_symbol(","):
            return found


# ----------------------------------------------------------------------------------------------- catalogs, modules, jars


def use_catalog(cursor: Cursor, text: str) -> CatalogStatement | None:
    if cursor.at_end:
        # A database of that name: Spark's USE.
        return None
    name = cursor.identifier("the name of a catalog")
    cursor.expect_end()
    return UseCatalog(name=name)


def create_catalog(cursor: Cursor, text: str) -> CatalogStatement | None:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.identifier("the name of a catalog")
    comment = cursor.string("the comment in quotes") if cursor.accept("COMMENT") else None
    cursor.expect("WITH")
    options = cursor.properties()
    cursor.expect_end()
    return CreateCatalog(name=name, options=options, comment=comment, if_not_exists=if_not_exists)


def alter_catalog(cursor: Cursor, text: str) -> CatalogStatement | None:
    name = cursor.identifier("the name of a catalog")
    if cursor.accept("SET"):
        found = AlterCatalog(name=name, options=_some(cursor, cursor.properties()))
    elif cursor.accept("RESET"):
        found = AlterCatalog(name=name, removed=_option_keys(cursor))
    elif cursor.accept("COMMENT"):
        found = AlterCatalog(name=name, comment=cursor.string("the comment in quotes"))
    else:
        raise cursor.error("SET (…), RESET (…) or COMMENT 'text'")
    cursor.expect_end()
    return found


def _option_keys(cursor: Cursor) -> tuple[str, ...]:
    found: list[str] = []
    cursor.entries(lambda: found.append(cursor.string("an option key in quotes")), "the option keys")
    return tuple(found)


def _some(cursor: Cursor, options: Mapping[str, str]) -> Mapping[str, str]:
    if not options:
        raise cursor.refusal("SET names at least one option")
    return options


def drop_catalog(cursor: Cursor, text: str) -> CatalogStatement | None:
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.identifier("the name of a catalog")
    cursor.expect_end()
    return DropCatalog(name=name, if_exists=if_exists)


def add_jar(cursor: Cursor, text: str) -> CatalogStatement | None:
    first = last = cursor.peek()
    if first is None:
        raise cursor.error("the path of a jar")
    while token := cursor.take():
        last = token
    path = first.value if first is last else text[first.start : last.end if last else first.end]
    return AddJar(path=path)


def refuse(reason: str) -> Reader:
    def read(cursor: Cursor, text: str) -> CatalogStatement | None:
        raise Unsupported(reason)

    return read
