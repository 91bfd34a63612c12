"""The JSON text of a page's `data`, built from Arrow columns without Python objects for each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from mt_core.base.rowset import RowKind
from mt_core.spark.results.json_values import AS_TEXTS, Encode, widened

Write = Callable[[pa.Array], pa.Array]
_TO_ESCAPE = r'["\\\x00-\x1f]'
_NULL = "null"
# The beginning of a row, by row kind code.
_BEGINNINGS = [f'{{"kind":"{kind.name}","fields":[' for kind in RowKind]


def writer(data_type: spark.DataType, encode: Encode) -> Write:
    """Return a function that converts Arrow arrays of *data_type* to arrays of JSON, as *encode* does."""
    if isinstance(data_type, _PLAIN):
        return lambda array: pc.cast(array, pa.string())
    if isinstance(data_type, spark.DoubleType):
        return lambda array: _numbers(array) if _finite(array) else _any(encode(array))
    if isinstance(data_type, spark.FloatType):
        return lambda array: _numbers(widened(array)) if _finite(array) else _any(encode(array))
    if isinstance(data_type, spark.StringType):
        return lambda array: _any(encode(array)) if _needs_escapes(array) else _quoted(array)
    texts = AS_TEXTS.get(type(data_type))
    if texts is not None:
        return lambda array: _quoted(texts(array))
    return lambda array: _any(encode(array))


def json_rows(columns: Sequence[pa.Array], writers: Sequence[Write], kinds: pa.Array | None = None) -> bytes:
    """Return the rows of *columns* (at least one) as a JSON array of Flink's row objects.

    *kinds* are row kind codes. Without them, all rows are INSERT.
    """
    if not len(columns[0]):
        return b"[]"
    parts: list[Any] = [_BEGINNINGS[0] if kinds is None else pa.array(_BEGINNINGS).take(kinds)]
    for write, column in zip(writers, columns, strict=True):
        parts += [write(column), ","]
    parts[-1] = "]}"
    rows = pc.binary_join_element_wise(*parts, "", null_handling="replace", null_replacement=_NULL)
    # 32-bit offsets are sufficient, because PAGE_BYTES limits a page to 32 MiB.
    whole = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), rows), ",")
    text: bytes = whole[0].as_buffer().to_pybytes()
    return b"[" + text + b"]"


_PLAIN = (
    spark.BooleanType,
    spark.ByteType,
    spark.ShortType,
    spark.IntegerType,
    spark.LongType,
    spark.YearMonthIntervalType,
)


def _numbers(array: pa.Array) -> pa.Array:
    filled = pc.fill_null(array, 0.0) if array.null_count else array
    written = orjson.dumps(filled.to_numpy(zero_copy_only=False), option=orjson.OPT_SERIALIZE_NUMPY)
    texts = pa.array(written[1:-1].decode("ascii").split(","), pa.string())
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.string())) if array.null_count else texts


def _finite(array: pa.Array) -> bool:
    return len(array) > 0 and pc.all(pc.is_finite(array)).as_py() in {True, None}


def _needs_escapes(array: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring_regex(array, _TO_ESCAPE)).as_py())


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _any(values: Sequence[Any]) -> pa.Array:
    return pa.array(
        [None if value is None else orjson.dumps(value, default=_exact).decode() for value in values],
        pa.string(),
    )


def _exact(value: Any) -> Any:
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value))
    raise TypeError(f"{type(value).__name__} has no JSON form")
