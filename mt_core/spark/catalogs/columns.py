"""Conversion of column types between SQL, Spark and Iceberg."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from mt_core.base.identifiers import display_name, quote
from mt_core.errors import DefinitionInvalid
from mt_core.model.table import Column
from mt_core.spark.driver.failures import SPARK_ERRORS
from mt_core.spark.driver.jvm_objects import own_class

SCHEMAS = "freshtable.iceberg.Schemas"


def sql_type(data_type: DataType) -> str:
    """Return a type as text that Spark's parser accepts.

    It is Spark's simple string, with field names quoted if necessary.
    """
    match data_type:
        case StructType():
            fields = (
                f"{display_name([field.name])}:{sql_type(field.dataType)}" for field in data_type.fields
            )
            return f"struct<{','.join(fields)}>"
        case ArrayType():
            return f"array<{sql_type(data_type.elementType)}>"
        case MapType():
            return f"map<{sql_type(data_type.keyType)},{sql_type(data_type.valueType)}>"
        case _:
            return data_type.simpleString()


def columns_of(java_struct: Any) -> tuple[Column, ...]:
    """Return the columns of a Java StructType, all nullable, like those of a query result."""
    return columns_in(json.loads(java_struct.json()))


def columns_in(schema: dict[str, Any]) -> tuple[Column, ...]:
    """Return the columns of a struct in Spark's JSON, all nullable."""
    fields = StructType.fromJson(schema).fields
    return tuple(Column(name=field.name, type=sql_type(field.dataType)) for field in fields)


def iceberg_columns(session: SparkSession, schema: Any) -> tuple[Column, ...]:
    """Return the columns of an Iceberg *schema*, all nullable."""
    return columns_in(json.loads(own_class(session, SCHEMAS).struct(schema)))


def iceberg_fields(session: SparkSession, schema: Any) -> list[dict[str, Any]]:
    """Return the columns of an Iceberg *schema*, in order, in the JSON of the Iceberg specification."""
    fields: list[dict[str, Any]] = json.loads(own_class(session, SCHEMAS).json(schema))["fields"]
    return fields


def _type_json(session: SparkSession, column: Column) -> str:
    """Return a column's type in Spark's JSON. Raises DefinitionInvalid if its text is not a type."""
    try:
        return str(own_class(session, SCHEMAS).typeJson(column.type))
    except SPARK_ERRORS as cause:
        raise DefinitionInvalid(
            f"Column {column.name}: {column.type} is not a type that Spark knows."
        ) from cause


def iceberg_type(session: SparkSession, column: Column) -> Any:
    """Return a column's Iceberg type. Raises DefinitionInvalid if Iceberg cannot store it."""
    spark_type = _type_json(session, column)
    refusal = DefinitionInvalid(
        f"Column {column.name} has type {column.type}, which Iceberg cannot store; "
        f"CAST it in the query, for example CAST({quote(column.name)} AS STRING)."
    )
    try:
        converted = own_class(session, SCHEMAS).type(spark_type)
    except SPARK_ERRORS as cause:
        raise refusal from cause
    # Iceberg accepts such types in a schema, but cannot write rows with them.
    if not _takes_rows(json.loads(spark_type)):
        raise refusal
    return converted


def _takes_rows(part: Any) -> bool:
    """Return whether Iceberg can write values of a type, which is given in Spark's JSON.

    Iceberg cannot write VOID, structs without fields, or structs with empty field names.
    """
    if isinstance(part, str):
        return part != "void"
    if part["type"] == "struct":
        return bool(part["fields"]) and all(
            each["name"] and _takes_rows(each["type"]) for each in part["fields"]
        )
    return all(_takes_rows(part[inner]) for inner in ("elementType", "keyType", "valueType") if inner in part)


def iceberg_schema(session: SparkSession, columns: Sequence[Column]) -> Any:
    """Return *columns* as an Iceberg schema, with their comments and NOT NULL."""
    struct = {
        "type": "struct",
        "fields": [
            {
                "name": column.name,
                "type": json.loads(_type_json(session, column)),
                "nullable": column.nullable,
                "metadata": {"comment": column.comment} if column.comment else {},
            }
            for column in columns
        ],
    }
    return own_class(session, SCHEMAS).ofStruct(json.dumps(struct))


def stored_type(session: SparkSession, column: Column) -> str:
    """Return the type with which a column is stored.

    TINYINT and SMALLINT are stored as int, CHAR and VARCHAR as string.
    """
    stored = json.loads(own_class(session, SCHEMAS).stored(iceberg_type(session, column)))
    field = {"name": column.name, "type": stored, "nullable": True, "metadata": {}}
    return sql_type(StructType.fromJson({"type": "struct", "fields": [field]}).fields[0].dataType)


def check_assignable(session: SparkSession, produced: Column, declared: Column) -> None:
    """Raise DefinitionInvalid if *produced* cannot be assigned to *declared* without CAST.

    The rules are those of ANSI store assignment.
    """
    types = _type_json(session, produced), _type_json(session, declared)
    if not own_class(session, SCHEMAS).isAssignable(*types):
        raise DefinitionInvalid(
            f"Column {declared.name} is declared {declared.type.upper()}, "
            f"its query gives {produced.type.upper()}, which cannot be assigned to it; "
            f"CAST({produced.name} AS {declared.type.upper()}) in the query."
        )
