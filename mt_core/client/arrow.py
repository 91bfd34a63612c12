"""Results as Arrow tables, with the types that their columns have in SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from mt_core.client.values import Rows, UnreadableValue, needs_zone, rows_converter, session_zone
from mt_core.errors import GatewayError
from mt_core.rowset import Column, LogicalType

UTC = "UTC"


class JsonPage(Protocol):
    """A page that came as JSON."""

    @property
    def columns(self) -> Sequence[Column]: ...

    @property
    def rows(self) -> Sequence[Sequence[Any]]: ...


def read_stream(content: bytes) -> pa.Table:
    """Return a page that came as an Arrow IPC stream; raises GatewayError for one that cannot be read."""
    try:
        table = pa.ipc.open_stream(content).read_all()
    except pa.ArrowException as cause:
        raise GatewayError(f"The gateway answered an Arrow stream that cannot be read: {cause}") from cause
    # What the gateway adds for its own sake is not the reader's.
    return table.replace_schema_metadata(None)


def page_reader(properties: Callable[[], Mapping[str, str]]) -> Callable[[pa.Table | JsonPage], pa.Table]:
    """Return what makes tables of pages, which may have come as JSON; *properties* are the session's, asked for if needed."""
    converts: list[Callable[[Rows], Iterator[tuple[Any, ...]]]] = []

    def table_of(page: pa.Table | JsonPage) -> pa.Table:
        if isinstance(page, pa.Table):
            return page
        if not converts:
            zone = session_zone(properties()) if needs_zone(page.columns) else None
            converts.append(rows_converter(page.columns, zone))
        return arrow_table(page.columns, list(converts[0](page.rows)))

    return table_of


def joined(tables: Iterable[pa.Table]) -> pa.Table:
    """Return the rows of pages, of which there is at least one, as one table."""
    return pa.concat_tables(tables)


def arrow_table(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Return *rows*, whose values are the driver's Python objects, as a table; raises UnreadableValue."""
    fields = [
        pa.field(
            column.name,
            arrow_type(column.type),
            nullable=column.type.nullable,
            metadata={"comment": column.comment} if column.comment else None,
        )
        for column in columns
    ]
    values = zip(*rows, strict=True) if rows else ([] for _ in columns)
    arrays = [_array(field, column) for field, column in zip(fields, values, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _array(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    try:
        prepared = [_prepared(value, field.type) for value in values] if pa.types.is_nested(field.type) else values
        return pa.array(prepared, field.type)
    except (pa.ArrowException, ValueError, OverflowError) as cause:
        raise UnreadableValue(f"Column {field.name} cannot be written as {field.type}: {cause}") from cause


def _prepared(value: Any, kind: pa.DataType) -> Any:
    # Arrow makes maps of pairs only.
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
    """Return the Arrow type for values of *kind*; what Arrow lacks is text."""
    extras = kind.extras
    match kind.root:
        case "DECIMAL":
            return pa.decimal128(extras["precision"], extras["scale"])
        case "TIMESTAMP_WITH_LOCAL_TIME_ZONE" | "TIMESTAMP_WITH_TIME_ZONE":
            return pa.timestamp("us", tz=UTC)
        case "ARRAY":
            return pa.list_(_field("element", extras["elementType"]))
        case "MAP":
            return pa.map_(_part(extras["keyType"]), _field("value", extras["valueType"]))
        case "MULTISET":
            return pa.map_(_part(extras["elementType"]), pa.int32())
        case "ROW":
            return pa.struct([_field(field["name"], field["fieldType"]) for field in extras["fields"]])
        case _:
            return _SCALARS.get(kind.root, pa.string())


def _part(body: Mapping[str, Any]) -> pa.DataType:
    return arrow_type(LogicalType.from_json(body))


def _field(name: str, body: Mapping[str, Any]) -> pa.Field:
    return pa.field(name, _part(body), nullable=body.get("nullable", True))


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
