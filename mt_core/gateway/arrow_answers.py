"""Arrow responses: a result page as an Arrow IPC stream, with the other members of the JSON as headers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
from fastapi import Request, Response

from mt_core.base.protocol import ARROW_TYPE, NEXT_URI_HEADER, RESULT_TYPE_HEADER
from mt_core.base.rowset import Column, LogicalType

# Larger pages need fewer requests. A limit in bytes keeps pages of long rows smaller.
PAGE_ROWS = 262_144
_TYPES = {
    "BOOLEAN": pa.bool_(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
}
_TEXTS = pa.map_(pa.string(), pa.string())


class ArrowAnswer(Response):
    """A response with an Arrow IPC stream, which is empty if the result is not ready."""

    media_type = ARROW_TYPE

    def __init__(
        self,
        stream: bytes | memoryview,
        result_type: str,
        next_uri: str | None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        page = {RESULT_TYPE_HEADER: result_type} | (
            {NEXT_URI_HEADER: next_uri} if next_uri is not None else {}
        )
        super().__init__(stream, headers={**page, **(headers or {})})


def accepts_arrow(request: Request) -> bool:
    """Return whether the Accept header of *request* includes Arrow streams."""
    accepted = request.headers.get("accept", "").split(",")
    return any(part.partition(";")[0].strip().lower() == ARROW_TYPE for part in accepted)


def stream_of(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> bytes | memoryview:
    """Return the JSON rows of a non-query statement as an Arrow stream. Complex types become text."""
    schema = pa.schema(
        [pa.field(column.name, _arrow_type(column.type), nullable=column.type.nullable) for column in columns]
    )
    values = zip(*rows, strict=True) if rows else ([] for _ in columns)
    arrays = [
        pa.array([_arrow_value(value, field.type) for value in column], field.type)
        for field, column in zip(schema, values, strict=True)
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return memoryview(sink.getvalue())


def _arrow_type(kind: LogicalType) -> pa.DataType:
    if kind.root == "MAP":
        return _TEXTS if kind.extras["valueType"]["type"] == "VARCHAR" else pa.string()
    return _TYPES.get(kind.root, pa.string())


def _arrow_value(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return list(value.items())
    return orjson.dumps(value).decode() if pa.types.is_string(kind) and not isinstance(value, str) else value
