"""Functions in SQL, registered through Spark's internal API.

Spark's CREATE FUNCTION cannot be used, because Iceberg's SQL extension cannot parse function parameters.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mt_core.base.identifiers import quote
from mt_core.model.function import CreatedFunction, FunctionKind
from mt_core.spark.driver.jvm_objects import scala_sequence, state_of, static_member

_CATALYST = "org.apache.spark.sql.catalyst"
_SQL_FUNCTION = f"{_CATALYST}.catalog.SQLFunction"


def register_sql(session: SparkSession, function: CreatedFunction) -> None:
    """Register or replace *function* in *session*. Raises Spark's parse errors."""
    is_table, catalog = function.kind is FunctionKind.TABLE, state_of(session).catalog()
    option, nothing = (
        static_member(session, "scala.Option.apply"),
        static_member(session, "scala.Option.empty")(),
    )
    parser = spark_parser(session)
    parameters = option(parser.parseRoutineParam(function.parameters)) if function.parameters else nothing
    body = option(function.body)
    definition = static_member(session, _SQL_FUNCTION)(
        identifier_of(session, function.name),
        parameters,
        _return_type(session, parser, function),
        nothing if is_table else body,
        body if is_table else nothing,
        nothing,
        nothing if function.deterministic is None else option(function.deterministic),
        nothing,
        is_table,
        _place(session, function),
        nothing,
        0,
    )
    register = catalog.registerSQLTableFunction if is_table else catalog.registerSQLScalarFunction
    register(definition, True)


def spark_parser(session: SparkSession) -> Any:
    """Return Spark's own parser, without extensions."""
    return static_member(session, "org.apache.spark.sql.execution.SparkSqlParser")()


def no_columns(session: SparkSession) -> Any:
    """Return an empty parameter list. Spark's parser cannot be used for it, because it rejects empty text."""
    return static_member(session, "org.apache.spark.sql.types.StructType")()


def identifier_of(session: SparkSession, name: str) -> Any:
    """Return the FunctionIdentifier of a function without a database."""
    return static_member(session, f"{_CATALYST}.FunctionIdentifier")(name)


def _return_type(session: SparkSession, parser: Any, function: CreatedFunction) -> Any:
    if function.kind is FunctionKind.TABLE:
        return static_member(session, "scala.util.Right")(parser.parseTableSchema(function.returns))
    return static_member(session, "scala.util.Left")(parser.parseDataType(function.returns))


def _place(session: SparkSession, function: CreatedFunction) -> Any:
    """Return the properties with the catalog and namespace in which Spark resolves names in the body."""
    namespace = scala_sequence(session, function.namespace)
    return static_member(session, f"{_SQL_FUNCTION}.catalogAndNamespaceToProps")(function.catalog, namespace)


def returned_type(session: SparkSession, function: CreatedFunction) -> str:
    """Return the type of the expression, or the columns of the query, in a body without RETURNS."""
    columns = spark_parser(session).parseRoutineParam(function.parameters) if function.parameters else None
    names = [] if columns is None else list(columns.fieldNames())
    types = [] if columns is None else [each.dataType().sql() for each in columns.fields()]
    nulls = ", ".join(
        f"CAST(NULL AS {kind}) AS {quote(name)}" for name, kind in zip(names, types, strict=True)
    )
    source = f" FROM (SELECT {nulls})" if nulls else ""
    if function.kind is FunctionKind.TABLE:
        query = (
            f"SELECT q.* FROM (SELECT {nulls}) p, LATERAL ({function.body}\n) q" if nulls else function.body
        )
    else:
        query = f"SELECT ({function.body}\n) AS value{source}"
    schema = session.sql(query)._jdf.schema()
    if function.kind is FunctionKind.TABLE:
        return str(schema.toDDL())
    return str(schema.fields()[0].dataType().sql())
