"""Results as Arrow tables, whose types follow from the types of the SQL columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from mt_core.base.rowset import ROW_KIND, Column, LogicalType, RowKind
from mt_core.client.pages import ResultPage
from mt_core.client.values import UnreadableValue, rows_converter, zone_for
from mt_core.errors import GatewayError


def read_stream(content: bytes) -> pa.Table:
    """Return a page that was received as an Arrow IPC stream. Raises GatewayError if it is unreadable."""
    try:
        table = pa.ipc.open_stream(content).read_all()
    except pa.ArrowException as cause:
        raise GatewayError(f"The gateway returned an unreadable Arrow stream: {cause}") from cause
    # The metadata is meant only for the client.
    return table.replace_schema_metadata(None)


def as_tables(
    pages: Iterable[pa.Table | ResultPage], properties: Callable[[], Mapping[str, str]]
) -> Iterator[pa.Table]:
    """Yield *pages*, some of which may be JSON, as tables. *properties* returns the session's properties."""
    convert = None
    for page in pages:
        if isinstance(page, ResultPage):
            convert = convert or rows_converter(page.columns, zone_for(page.columns, properties))
            table = arrow_table(page.columns, list(convert(page.rows)))
            yield table if page.kinds is None else _with_kinds(table, page.kinds)
        else:
            yield page


def _with_kinds(table: pa.Table, kinds: Sequence[RowKind]) -> pa.Table:
    """Return *table* with the codes of *kinds* as its last column, as in Arrow pages of the gateway."""
    codes = pa.array([kind.code for kind in kinds], pa.int8())
    return table.append_column(pa.field(ROW_KIND, pa.int8(), nullable=False), codes)


def arrow_table(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Return *rows* of Python objects as a table. Raises UnreadableValue."""
    fields, arrays = list[pa.Field](), list[pa.Array]()
    for column, values in zip(
        columns, zip(*rows, strict=True) if rows else ([] for _ in columns), strict=True
    ):
        kind, comment = arrow_type(column.type), {"comment": column.comment} if column.comment else None
        fields.append(pa.field(column.name, kind, nullable=column.type.nullable, metadata=comment))
        try:
            prepared = [_prepared(value, kind) for value in values] if pa.types.is_nested(kind) else values
            arrays.append(pa.array(prepared, kind))
        except (pa.ArrowException, ValueError, OverflowError) as cause:
            raise UnreadableValue(f"Column {column.name} cannot be written as {kind}: {cause}") from cause
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _prepared(value: Any, kind: pa.DataType) -> Any:
    # Arrow builds a map only from pairs.
    match value:
        case None:
            return None
        case dict() if pa.types.is_map(kind):
            return [(key, _prepared(item, kind.item_type)) for key, item in value.items()]
        case dict():
            return {field.name: _prepared(value[field.name], field.type) for field in kind}
        case list():
            return [_prepared(item, kind.value_type) for item in value]
        case _:
            return value


def arrow_type(kind: LogicalType) -> pa.DataType:
    """Return the Arrow type for values of *kind*. Types that Arrow lacks become strings."""
    parts = [pa.field(name, arrow_type(part), nullable=part.nullable) for name, part in kind.parts]
    match kind.root:
        case "DECIMAL":
            return pa.decimal128(kind.extras["precision"], kind.extras["scale"])
        case "TIMESTAMP_WITH_LOCAL_TIME_ZONE" | "TIMESTAMP_WITH_TIME_ZONE":
            return pa.timestamp("us", tz="UTC")
        case "ARRAY":
            return pa.list_(parts[0])
        case "MAP":
            return pa.map_(parts[0].type, parts[1])
        case "MULTISET":
            return pa.map_(parts[0].type, pa.int32())
        case "ROW":
            return pa.struct(parts)
        case _:
            return _SCALARS.get(kind.root, pa.string())


_SCALARS: dict[str, pa.DataType] = {
    "NULL": pa.null(),
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIME_WITHOUT_TIME_ZONE": pa.time64("us"),
    "TIMESTAMP_WITHOUT_TIME_ZONE": pa.timestamp("us"),
    "INTERVAL_DAY_TIME": pa.duration("us"),
    "INTERVAL_YEAR_MONTH": pa.int32(),
}
