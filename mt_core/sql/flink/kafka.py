"""CREATE TABLE … WITH ('connector' = 'kafka', …): the columns of Flink's statement over the records of Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.identifiers import quote
from mt_core.model.kafka_topic import KafkaTopic
from mt_core.sql.flink.connectors import KAFKA
from mt_core.sql.flink.kafka_formats import Part
from mt_core.sql.flink.kafka_options import format_options, kafka_options
from mt_core.sql.statements import ColumnSpec

_METADATA = {
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestamp-type": "CASE timestampType WHEN 0 THEN 'CreateTime' WHEN 1 THEN 'LogAppendTime' ELSE 'NoTimestampType' END",
    "headers": (
        "aggregate(coalesce(headers, array()), CAST(map() AS MAP<STRING, BINARY>), (found, each) -> "
        "map_concat(map_filter(found, (name, value) -> name <> each.key), map(each.key, each.value)))"
    ),
}
_HEADERS = "transform(map_entries(CAST({} AS MAP<STRING, BINARY>)), each -> struct(each.key, each.value)) AS headers"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataColumn:
    """`column type METADATA [FROM 'key'] [VIRTUAL]`."""

    key: str
    virtual: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaColumns:
    """The columns of a table in their order, with those among them that are no fields of a record.

    `computed` has the expression of each column AS expression; the type of such a column is None.
    """

    specs: Sequence[ColumnSpec]
    metadata: Mapping[str, MetadataColumn] = field(default_factory=dict)
    computed: Mapping[str, str] = field(default_factory=dict)


def kafka_topic(table: str, options: Mapping[str, str], columns: KafkaColumns) -> KafkaTopic:
    """Return what *table* means to Spark; raises DefinitionInvalid, Unsupported naming the option or the column."""
    translated = kafka_options(table, options)
    key, value = _parts(table, options, columns)
    parts = {field.name: part for part in (key, value) if part is not None for field in part.fields}
    # Where both have a column the value's counts, as in Flink.
    read = [part for part in (key, value) if part is not None and part in parts.values()]
    items = [
        _metadata_item(table, spec, columns.metadata[spec.name])
        if spec.name in columns.metadata
        else f"{parts[spec.name].item(spec)} AS {quote(spec.name)}"
        for spec in columns.specs
        if spec.name not in columns.computed
    ]
    computed = [
        f"({columns.computed[spec.name]}) AS {quote(spec.name)}" if spec.name in columns.computed else quote(spec.name)
        for spec in columns.specs
    ]
    written, record, reason = _writing(table, options, columns, [part for part in (key, value) if part is not None])
    headers = any(each.key == "headers" for each in columns.metadata.values())
    return KafkaTopic(
        table=table,
        topics=translated.topics,
        connection=translated.connection,
        start=translated.start,
        end=translated.end,
        reading={**translated.reading, **({"includeHeaders": "true"} if headers else {})},
        condition=value.condition,
        parsed=tuple(item for part in read for item in part.parsed),
        items=tuple(items),
        computed=tuple(computed) if columns.computed else (),
        written=written,
        record=record,
        not_written=reason,
    )


def _parts(table: str, options: Mapping[str, str], columns: KafkaColumns) -> tuple[Part | None, Part]:
    """Return what the key has, None if it is not read, and what the value has."""
    fields = {
        spec.name.lower(): spec
        for spec in columns.specs
        if spec.name not in columns.metadata and spec.name not in columns.computed
    }
    if not fields:
        raise DefinitionInvalid(f"Table {table}: connector '{KAFKA}' needs columns; write them after the name.")
    prefix = options.get("key.fields-prefix", "")
    key_format, key_options = format_options(table, options, "key")
    names = [name.strip() for name in options.get("key.fields", "").split(";") if name.strip()]
    if bool(key_format) != bool(names):
        raise DefinitionInvalid(
            f"Table {table}: options 'key.format' and 'key.fields' go together; write both, or none."
        )
    for name in names:
        if name.lower() not in fields or not name.startswith(prefix):
            starts = f" that begins with '{prefix}'" if prefix else ""
            raise DefinitionInvalid(
                f"Table {table}: option 'key.fields' names {name}, which is no column{starts} of it."
            )
    key_fields = [fields[name.lower()] for name in names]
    include = options.get("value.fields-include", "ALL").upper()
    if include not in {"ALL", "EXCEPT_KEY"}:
        raise DefinitionInvalid(
            f"Table {table}: option 'value.fields-include' is '{include}'; expected ALL or EXCEPT_KEY."
        )
    if prefix and include == "ALL":
        raise DefinitionInvalid(
            f"Table {table}: option 'key.fields-prefix' needs 'value.fields-include' = 'EXCEPT_KEY', as in Flink."
        )
    value_fields = [field for field in fields.values() if include == "ALL" or field not in key_fields]
    value_format, value_options = format_options(table, options, "value")
    value = Part(table=table, column="value", format=value_format, options=value_options, fields=value_fields)
    if not names:
        return None, value
    key = Part(table=table, column="key", format=key_format, options=key_options, fields=key_fields, prefix=prefix)
    return key, value


def _metadata_item(table: str, spec: ColumnSpec, column: MetadataColumn) -> str:
    expression = _METADATA.get(column.key)
    if expression is None:
        raise Unsupported(
            f"Table {table}, column {spec.name}: connector '{KAFKA}' has no metadata '{column.key}'; there are "
            f"{', '.join(_METADATA)}."
        )
    return f"CAST({expression} AS {spec.type}) AS {quote(spec.name)}"


def _writing(
    table: str, options: Mapping[str, str], columns: KafkaColumns, parts: Sequence[Part]
) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Return the columns that INSERT takes, the select items of a record over these, and why there are none."""
    if "topic" not in options or ";" in options["topic"]:
        return (
            (),
            (),
            f"Table {table} is of several topics, and INSERT writes one; create a table with 'topic' = 'name'.",
        )
    metadata = {name: each for name, each in columns.metadata.items() if not each.virtual}
    for name, each in metadata.items():
        if each.key != "headers":
            what = f"Table {table}, column {name}: Spark cannot write the metadata '{each.key}' of a record"
            return (), (), f"{what}; declare the column as METADATA VIRTUAL, which INSERT leaves out."
    written = [
        spec.name
        for spec in columns.specs
        if spec.name not in columns.computed and (spec.name not in columns.metadata or spec.name in metadata)
    ]
    record = [part.record for part in parts] + [_HEADERS.format(quote(name)) for name in metadata]
    return tuple(written), tuple(record), ""
