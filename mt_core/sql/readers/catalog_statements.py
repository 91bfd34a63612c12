"""Readers of statements about catalogs, jobs and jars. A reader returns None to leave a statement to Spark.

Flink and Spark share many of these statements, with small differences. A reader accepts the form that both
have and that Freshtable itself answers, such as SHOW TABLES with Flink's columns. It returns None when the
text has a form that only Spark has, such as a second FROM. Spark then executes the statement or reports the
error. A reader raises an error only if Spark could not execute the statement either. Words that are keywords
here may also be names of tables (`DESCRIBE catalog`). Therefore a reader checks for the end of the statement
before it treats such a word as a keyword.
"""

from __future__ import annotations

from collections.abc import Callable

from mt_core.base.tokens import TokenKind
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
    statement_at,
)
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.plans import ExplainPlan
from mt_core.sql.readers.plan_statements import explain_plan
from mt_core.sql.statements import DescribeTable

Reader = Callable[[TokenCursor, str], CatalogStatement | DescribeTable | None]
_IN_A_NAMESPACE = {
    Shown.DATABASES,
    Shown.TABLES,
    Shown.VIEWS,
    Shown.FUNCTIONS,
    Shown.USER_FUNCTIONS,
    Shown.PROCEDURES,
    Shown.MODELS,
}


# ------------------------------------------------------------------------------------------------------- SHOW


def show(kind: Shown) -> Reader:
    def read(cursor: TokenCursor, text: str) -> CatalogStatement | None:
        name = None
        if kind in _IN_A_NAMESPACE and (cursor.accept("FROM") or cursor.accept("IN")):
            name = cursor.name("a catalog" if kind is Shown.DATABASES else "a database")
        pattern = _pattern(cursor)
        return ShowObjects(kind=kind, name=name, pattern=pattern) if cursor.at_end else None

    return read


def _pattern(cursor: TokenCursor) -> Pattern | None:
    ahead = 1 if cursor.word() == "NOT" else 0
    word, text = cursor.word(ahead), cursor.peek(ahead + 1)
    if word not in {"LIKE", "ILIKE"} or text is None or text.kind is not TokenKind.STRING:
        return None
    for _ in range(ahead + 2):
        cursor.take()
    return Pattern(text=text.value, negated=bool(ahead), any_case=word == "ILIKE")


def show_columns(cursor: TokenCursor, text: str) -> CatalogStatement | None:
    if not (cursor.accept("FROM") or cursor.accept("IN")):
        return None
    name = cursor.name("a table")
    pattern = _pattern(cursor)
    # Spark allows a second FROM, which names the database.
    return ShowColumns(name=name, pattern=pattern) if cursor.at_end else None


def show_partitions(cursor: TokenCursor, text: str) -> CatalogStatement | None:
    name = cursor.name("a table")
    partition: dict[str, str] = {}
    for column, value in cursor.partition().items() if cursor.accept("PARTITION") else ():
        if not isinstance(value, str):
            raise cursor.refusal(f"partition column {column} must have a single value here")
        partition[column] = value
    cursor.expect_end("PARTITION (…), or the end of the statement")
    return ShowPartitions(name=name, partition=partition)


def show_create_relation(cursor: TokenCursor, text: str) -> CatalogStatement | None:
    name = cursor.name("a table or view")
    return ShowCreateRelation(name=name) if cursor.at_end else None


def show_create_catalog(cursor: TokenCursor, text: str) -> CatalogStatement | None:
    name = cursor.identifier("the name of a catalog")
    cursor.expect_end()
    return ShowCreateCatalog(name=name)


# --------------------------------------------------------------------------------------------------- DESCRIBE


def describe_catalog(cursor: TokenCursor, text: str) -> CatalogStatement | DescribeTable | None:
    if cursor.at_end:
        return DescribeTable(name=("catalog",), text=text)
    extended = cursor.peek(1) is not None and cursor.accept("EXTENDED")
    name = cursor.identifier("the name of a catalog")
    cursor.expect_end()
    return DescribeCatalog(name=name, extended=extended)


def describe_database(cursor: TokenCursor, text: str) -> CatalogStatement | DescribeTable | None:
    if cursor.at_end:
        return DescribeTable(name=("database",), text=text)
    extended = cursor.peek(1) is not None and cursor.accept("EXTENDED")
    name = cursor.name("the name of a database")
    cursor.expect_end()
    return DescribeDatabase(name=name, extended=extended)


def describe_job(cursor: TokenCursor, text: str) -> CatalogStatement | DescribeTable | None:
    if cursor.at_end:
        return DescribeTable(name=("job",), text=text)
    job_id = cursor.string("a job id in quotes")
    cursor.expect_end()
    return DescribeJob(job_id=job_id)


def stop_job(cursor: TokenCursor, text: str) -> CatalogStatement | None:
    job_id = cursor.string("a job id in quotes")
    drop = cursor.accept("WITH", "DROP")
    savepoint = not drop and cursor.accept("WITH")
    if savepoint and not cursor.accept("SAVEPOINT"):
        raise cursor.error("SAVEPOINT or DROP")
    drain = savepoint and cursor.accept("WITH")
    if drain:
        cursor.expect("DRAIN")
    cursor.expect_end()
    return StopJob(job_id=job_id, savepoint=savepoint, drain=drain, drop=drop)


# ---------------------------------------------------------------------------------------------------- EXPLAIN

_SPARK_MODES = {
    mode.value.upper(): mode for mode in ExplainMode if mode not in {ExplainMode.SIMPLE, ExplainMode.JSON}
}
_CHANGES = "CHANGELOG_MODE"
_FLINK_DETAILS = {
    "ESTIMATED_COST": ExplainMode.COST,
    "JSON_EXECUTION_PLAN": ExplainMode.JSON,
    _CHANGES: ExplainMode.SIMPLE,
    # Spark gives no advice, so this detail adds nothing to the plan.
    "PLAN_ADVICE": ExplainMode.SIMPLE,
}


def read_explain(cursor: TokenCursor, text: str) -> Explain | ExplainPlan:
    """Read the rest of EXPLAIN.

    This is PLAN 'uri', or a statement that Flink's details, PLAN FOR or one of Spark's modes may precede.
    """
    plan = explain_plan(cursor)
    if plan is not None:
        return plan
    mode, changes = ExplainMode.SIMPLE, False
    if cursor.word() in _SPARK_MODES:
        mode = _SPARK_MODES[cursor.word()]
        cursor.take()
    elif cursor.word() in _FLINK_DETAILS:
        details = _details(cursor)
        mode = max((_FLINK_DETAILS[detail] for detail in details), key=list(ExplainMode).index)
        changes = _CHANGES in details
    else:
        cursor.accept("PLAN", "FOR")
    first = cursor.peek()
    if first is None:
        raise cursor.error("a statement to explain")
    return Explain(mode=mode, statement=statement_at(text, first.start), start=first.start, changes=changes)


def _details(cursor: TokenCursor) -> list[str]:
    details: list[str] = []
    while not details or cursor.accept(","):
        detail = cursor.word()
        if detail not in _FLINK_DETAILS:
            raise cursor.error(", ".join(_FLINK_DETAILS))
        cursor.take()
        details.append(detail)
    return details


# ------------------------------------------------------------------------------------ catalogs, modules, jars


def use_catalog(cursor: TokenCursor, text: str) -> CatalogStatement | None:
    if cursor.at_end:
        # This is Spark's USE of a database named `catalog`.
        return None
    name = cursor.identifier("the name of a catalog")
    cursor.expect_end()
    return UseCatalog(name=name)


def create_catalog(cursor: TokenCursor, text: str) -> CatalogStatement | None:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.identifier("the name of a catalog")
    comment = cursor.comment()
    cursor.expect("WITH")
    options = cursor.properties()
    cursor.expect_end()
    return CreateCatalog(name=name, options=options, comment=comment, if_not_exists=if_not_exists)


def alter_catalog(cursor: TokenCursor, text: str) -> CatalogStatement | None:
    name = cursor.identifier("the name of a catalog")
    if cursor.accept("SET"):
        change = AlterCatalog(name=name, options=cursor.properties())
        if not change.options:
            raise cursor.refusal("SET names at least one option")
    elif cursor.accept("RESET"):
        change = AlterCatalog(name=name, removed=cursor.property_keys())
    elif (comment := cursor.comment()) is not None:
        change = AlterCatalog(name=name, comment=comment)
    else:
        raise cursor.error("SET (…), RESET (…) or COMMENT 'text'")
    cursor.expect_end()
    return change


def drop_catalog(cursor: TokenCursor, text: str) -> CatalogStatement | None:
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.identifier("the name of a catalog")
    cursor.expect_end()
    return DropCatalog(name=name, if_exists=if_exists)


def add_jar(cursor: TokenCursor, text: str) -> CatalogStatement | None:
    first = last = cursor.peek()
    if first is None:
        raise cursor.error("the path of a jar")
    while token := cursor.take():
        last = token
    path = first.value if first is last else text[first.start : last.end if last else first.end]
    return AddJar(path=path)
