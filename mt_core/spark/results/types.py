"""Conversion of Spark types to Flink logical types of result columns."""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as spark

from mt_core.base.rowset import STRING_LENGTH, Column, LogicalType

TIMESTAMP_PRECISION = 6
YEAR_PRECISION = 4
DAY_PRECISION = 6
_YEAR_MONTH = ("YEAR", "MONTH")
_DAY_TIME = ("DAY", "HOUR", "MINUTE", "SECOND")

_PLAIN: dict[type[spark.DataType], tuple[str, dict[str, Any]]] = {
    spark.BooleanType: ("BOOLEAN", {}),
    spark.ByteType: ("TINYINT", {}),
    spark.ShortType: ("SMALLINT", {}),
    spark.IntegerType: ("INTEGER", {}),
    spark.LongType: ("BIGINT", {}),
    spark.FloatType: ("FLOAT", {}),
    spark.DoubleType: ("DOUBLE", {}),
    spark.DateType: ("DATE", {}),
    spark.VariantType: ("VARIANT", {}),
    spark.BinaryType: ("VARBINARY", {"length": STRING_LENGTH}),
    spark.TimestampType: ("TIMESTAMP_WITH_LOCAL_TIME_ZONE", {"precision": TIMESTAMP_PRECISION}),
    spark.TimestampNTZType: ("TIMESTAMP_WITHOUT_TIME_ZONE", {"precision": TIMESTAMP_PRECISION}),
}


def result_columns(schema: spark.StructType) -> tuple[Column, ...]:
    """Return the columns of a result with *schema*."""
    return tuple(
        Column(
            name=field.name,
            type=logical_type(field.dataType, nullable=field.nullable),
            comment=(field.metadata or {}).get("comment"),
        )
        for field in schema.fields
    )


def logical_type(data_type: spark.DataType, *, nullable: bool = True) -> LogicalType:
    """Return *data_type* as a Flink logical type. Types that Flink lacks are shown as text (VARCHAR)."""
    if isinstance(data_type, spark.NullType):
        return LogicalType(root="NULL")
    root, extras = _PLAIN.get(type(data_type)) or _parametrised(data_type)
    return LogicalType(root=root, nullable=nullable, extras=extras)


def _parametrised(data_type: spark.DataType) -> tuple[str, dict[str, Any]]:
    match data_type:
        case spark.DecimalType():
            return "DECIMAL", {"precision": data_type.precision, "scale": data_type.scale}
        case spark.CharType() | spark.VarcharType():
            return data_type.typeName().upper(), {"length": data_type.length}
        case spark.TimeType():
            return "TIME_WITHOUT_TIME_ZONE", {"precision": data_type.precision}
        case spark.YearMonthIntervalType() | spark.DayTimeIntervalType():
            return _interval(data_type)
        case spark.ArrayType():
            return "ARRAY", {"elementType": _json(data_type.elementType, data_type.containsNull)}
        case spark.MapType():
            key, value = (
                _json(data_type.keyType, False),
                _json(data_type.valueType, data_type.valueContainsNull),
            )
            return "MAP", {"keyType": key, "valueType": value}
        case spark.StructType():
            return "ROW", {"fields": [_field(field) for field in data_type.fields]}
        case _:
            return "VARCHAR", {"length": STRING_LENGTH}


def _interval(
    data_type: spark.YearMonthIntervalType | spark.DayTimeIntervalType,
) -> tuple[str, dict[str, Any]]:
    is_years = isinstance(data_type, spark.YearMonthIntervalType)
    units = _YEAR_MONTH if is_years else _DAY_TIME
    first, last = units[data_type.startField], units[data_type.endField]
    resolution = first if first == last else f"{first}_TO_{last}"
    if is_years:
        return "INTERVAL_YEAR_MONTH", {"precision": YEAR_PRECISION, "resolution": resolution}
    precisions = {"precision": DAY_PRECISION, "fractionalPrecision": TIMESTAMP_PRECISION}
    return "INTERVAL_DAY_TIME", {**precisions, "resolution": resolution}


def _field(field: spark.StructField) -> dict[str, Any]:
    body: dict[str, Any] = {"name": field.name, "fieldType": _json(field.dataType, field.nullable)}
    comment = (field.metadata or {}).get("comment")
    return {**body, "description": comment} if comment else body


def _json(data_type: spark.DataType, nullable: bool) -> dict[str, Any]:
    return logical_type(data_type, nullable=nullable).to_json()
