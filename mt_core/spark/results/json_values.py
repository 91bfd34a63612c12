"""Conversion of Arrow columns to Python values for JSON, one column at a time.

A page must have exactly the JSON values that Flink's SQL Gateway would return, although types differ
between Spark, Arrow and JSON. The conversion has two steps. Spark first casts the types that Arrow cannot
represent, and instants, which are wall clock times of the session in JSON (`casts`). An encoder for each
type, nested ones recursively, then converts a whole Arrow array (`encoder`). Arrays are converted as a
whole, because calling Python for each value would take most of the time of a page. Values that JSON lacks
become text (NaN, Infinity), and DECIMAL remains exact. Nested map keys are refused, because the keys of
JSON objects are text.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from decimal import Context
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from mt_core.errors import Unsupported

Encode = Callable[[pa.Array], list[Any]]
_EXACT = Context(prec=76)
# The end of the year 9999, in days and microseconds since 1970.
_LAST_DAY = 2_932_896
_LAST_MICROSECOND = 253_402_300_799_999_999
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

ARROW_CASTS: Mapping[type[spark.DataType], spark.DataType] = {
    spark.YearMonthIntervalType: spark.IntegerType(),
    spark.CalendarIntervalType: spark.StringType(),
    spark.CharType: spark.StringType(),
    spark.VarcharType: spark.StringType(),
}
"""The casts that Spark must apply to types that have no Arrow form."""
JSON_CASTS: Mapping[type[spark.DataType], spark.DataType] = {
    **ARROW_CASTS,
    spark.TimestampType: spark.TimestampNTZType(),
}
"""The casts for JSON. TIMESTAMP becomes wall clock time, because only Spark knows the session's zone."""


def casts(
    data_type: spark.DataType, by: Mapping[type[spark.DataType], spark.DataType]
) -> list[spark.DataType]:
    """Return the sequence of casts that Spark must apply to *data_type*, according to *by*; often empty."""
    months = _replaced(data_type, {spark.YearMonthIntervalType: spark.YearMonthIntervalType(1, 1)})
    if not isinstance(data_type, spark.NullType):
        # Arrow cannot represent VOID where nulls are not allowed, such as in map keys.
        by = {**by, spark.NullType: spark.StringType()}
    plain = _replaced(months, by)
    if plain == data_type:
        return []
    has_months = _replaced(data_type, {spark.YearMonthIntervalType: spark.NullType()}) != data_type
    return [months, plain] if has_months else [plain]


def encoder(data_type: spark.DataType, name: str) -> Encode:
    """Return a function from Arrow arrays of *data_type* to Python values.

    DECIMAL becomes Decimal without trailing zeros, which is written as a number. Raises Unsupported for
    nested map keys.
    """
    match data_type:
        case spark.ArrayType():
            return partial(_lists, encoder(data_type.elementType, name))
        case spark.MapType():
            return partial(_maps, _key_encoder(data_type, name), encoder(data_type.valueType, name))
        case spark.StructType():
            encoders = [encoder(field.dataType, name) for field in data_type.fields]
            return partial(_structs, data_type.fieldNames(), encoders)
        case _:
            texts = AS_TEXTS.get(type(data_type))
            return (
                _SCALARS.get(type(data_type), _values)
                if texts is None
                else lambda array: _texts(texts(array))
            )


def _replaced(data_type: spark.DataType, by: Mapping[type[spark.DataType], spark.DataType]) -> spark.DataType:
    match data_type:
        case spark.ArrayType():
            return spark.ArrayType(_replaced(data_type.elementType, by), data_type.containsNull)
        case spark.MapType():
            key, value = _replaced(data_type.keyType, by), _replaced(data_type.valueType, by)
            return spark.MapType(key, value, data_type.valueContainsNull)
        case spark.StructType():
            return spark.StructType(
                [
                    spark.StructField(f.name, _replaced(f.dataType, by), f.nullable, f.metadata)
                    for f in data_type.fields
                ]
            )
        case _:
            return by.get(type(data_type), data_type)


# ---------------------------------------------------------------------------------------------------- scalars


def _values(array: pa.Array) -> list[Any]:
    values: list[Any] = array.to_pylist()
    return values


def _numbers(array: pa.Array) -> list[Any]:
    # numpy is ten times faster than to_pylist(), but does not support nulls.
    if array.null_count:
        return _with_nulls(array, _numbers(pc.fill_null(array, 0)))
    values: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
    return values


def _texts(array: pa.Array) -> list[Any]:
    values: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
    return values


def _doubles(array: pa.Array) -> list[Any]:
    values = _numbers(array)
    if pc.all(pc.is_finite(array)).as_py() in {True, None}:
        return values
    return [value if value is None or math.isfinite(value) else _NOT_FINITE[str(value)] for value in values]


def widened(array: pa.Array) -> pa.Array:
    """Return FLOAT as DOUBLE with the same shortest text: 1.1, not 1.10000002384..."""
    return pc.cast(pc.cast(array, pa.string()), pa.float64())


def _each(encode: Callable[[Any], Any]) -> Encode:
    """Return a function that applies *encode* to each non-null value."""
    return lambda array: [None if value is None else encode(value) for value in array.to_pylist()]


def _iso(array: pa.Array) -> pa.Array:
    texts = _trimmed(pc.replace_substring(pc.cast(array, pa.string()), " ", "T"))
    return _signed(texts, pc.cast(array, pa.int64()), _LAST_MICROSECOND)


def _signed(texts: pa.Array, values: pa.Array, last: int) -> pa.Array:
    """Return *texts* with a plus sign before years of more than four digits, as ISO 8601 requires."""
    latest = pc.max(values).as_py()
    if latest is None or latest <= last:
        return texts
    return pc.replace_substring_regex(texts, r"^(\d{5,}-)", r"+\1")


def _trimmed(texts: pa.Array) -> pa.Array:
    # Arrow always writes the full fraction, so this does not remove zeros of the seconds.
    return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")


AS_TEXTS: dict[type[spark.DataType], Callable[[pa.Array], pa.Array]] = {
    spark.DateType: lambda array: _signed(pc.cast(array, pa.string()), pc.cast(array, pa.int32()), _LAST_DAY),
    spark.TimeType: lambda array: _trimmed(pc.cast(array, pa.string())),
    # Flink appends Z to the session's wall clock time, although it is not UTC.
    spark.TimestampType: lambda array: pc.binary_join_element_wise(_iso(array), "Z", ""),
    spark.TimestampNTZType: _iso,
}
"""For some types, functions from an array to texts without characters that JSON must escape."""

_SCALARS: dict[type[spark.DataType], Encode] = {
    spark.BooleanType: _values,
    spark.ByteType: _numbers,
    spark.ShortType: _numbers,
    spark.IntegerType: _numbers,
    spark.LongType: _numbers,
    spark.YearMonthIntervalType: _numbers,
    spark.FloatType: lambda array: _doubles(widened(array)),
    spark.DoubleType: _doubles,
    spark.DecimalType: _each(lambda value: value.normalize(_EXACT)),
    spark.StringType: _texts,
    spark.CalendarIntervalType: _texts,
    spark.BinaryType: _each(lambda value: b64encode(value).decode("ascii")),
    spark.DayTimeIntervalType: lambda array: _numbers(pc.divide(pc.cast(array, pa.int64()), 1000)),
    spark.VariantType: _each(lambda value: spark.VariantVal(value["value"], value["metadata"]).toJson()),
}

# ----------------------------------------------------------------------------------------------------- nested


def _lists(encode: Encode, array: pa.Array) -> list[Any]:
    offsets, values = _parts(array, array.values, encode)
    return _with_nulls(array, [values[i:j] for i, j in pairwise(offsets)])


def _maps(encode_keys: Encode, encode: Encode, array: pa.Array) -> list[Any]:
    offsets, keys = _parts(array, array.keys, encode_keys)
    _, items = _parts(array, array.items, encode)
    pairs = list(zip(keys, items, strict=True))
    return _with_nulls(array, [dict(pairs[i:j]) for i, j in pairwise(offsets)])


def _structs(names: Sequence[str], encoders: Sequence[Encode], array: pa.Array) -> list[Any]:
    columns = [encode(part) for encode, part in zip(encoders, array.flatten(), strict=True)]
    rows: list[Any] = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return _with_nulls(array, rows)


def _key_encoder(data_type: spark.MapType, name: str) -> Encode:
    """Return the encoder of map keys, which JSON requires to be text."""
    if isinstance(data_type.keyType, (spark.ArrayType, spark.MapType, spark.StructType, spark.VariantType)):
        raise Unsupported(
            f"Column {name} has a {data_type.simpleString()}, and the keys of a JSON object cannot be "
            "nested; cast the keys, or select map_entries(...)."
        )
    encode = encoder(data_type.keyType, name)
    match data_type.keyType:
        case spark.StringType():
            return encode
        case spark.BooleanType():
            return lambda array: ["TRUE" if key else "FALSE" for key in encode(array)]
        case spark.DecimalType():
            return lambda array: [format(key, "f") for key in array.to_pylist()]
        case _:
            return lambda array: [str(key) for key in encode(array)]


def _parts(array: pa.Array, values: pa.Array, encode: Encode) -> tuple[list[int], list[Any]]:
    """Return the offsets of the lists in *array*, relative to the first offset, and their encoded values."""
    offsets = array.offsets.to_pylist()
    first, last = offsets[0], offsets[-1]
    return [offset - first for offset in offsets], encode(values.slice(first, last - first))


def _with_nulls(array: pa.Array, values: Sequence[Any]) -> list[Any]:
    if not array.null_count:
        return list(values)
    valid = array.is_valid().to_numpy(zero_copy_only=False).tolist()
    return [value if is_valid else None for value, is_valid in zip(values, valid, strict=True)]
