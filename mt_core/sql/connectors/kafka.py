"""CREATE TABLE … over a Kafka topic: maps the columns of Flink's statement to and from Kafka records.

In Flink's connectors `kafka` and `upsert-kafka`, options determine which columns come from the key, the value
and the metadata of a record; Spark has only bytes. So each table is described by SELECT lists in both
directions: `parsed` and `items` turn records into rows, and `record` turns rows into records (see
`KafkaTopic`). The key and the value each have a `Part`, which knows its format. With `kafka`, every record is
an inserted row, and a column that is in both parts is read from the value, as in Flink. With `upsert-kafka`,
a record sets the row of its key, and a record without a value (a tombstone) deletes it. Therefore its key
columns must be read from the key. CREATE accepts tables that Spark cannot write (several topics, metadata
other than headers), because they can still be read; it records the reason why INSERT is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mt_core.base.identifiers import quote
from mt_core.errors import DefinitionInvalid, Unsupported
from mt_core.model.kafka_topic import KafkaTopic
from mt_core.sql.connectors.kafka_formats import Part
from mt_core.sql.connectors.kafka_options import KafkaOptions, format_options, kafka_options, upsert_options
from mt_core.sql.statements import ColumnSpec

_METADATA = {
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestamp-type": (
        "CASE timestampType WHEN 0 THEN 'CreateTime' WHEN 1 THEN 'LogAppendTime' ELSE 'NoTimestampType' END"
    ),
    "headers": (
        "aggregate(coalesce(headers, array()), CAST(map() AS MAP<STRING, BINARY>), (found, each) -> "
        "map_concat(map_filter(found, (name, value) -> name <> each.key), map(each.key, each.value)))"
    ),
}
_HEADERS = (
    "transform(map_entries(CAST({} AS MAP<STRING, BINARY>)), each -> struct(each.key, each.value)) AS headers"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataColumn:
    """`column type METADATA [FROM 'key'] [VIRTUAL]`."""

    key: str
    virtual: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaColumns:
    """The columns of a table in order, with the columns that are not physical fields of a record.

    `computed` contains the expression of each computed column, whose spec has no type.
    """

    specs: Sequence[ColumnSpec]
    metadata: Mapping[str, MetadataColumn] = field(default_factory=dict)
    computed: Mapping[str, str] = field(default_factory=dict)


def kafka_topic(table: str, options: Mapping[str, str], columns: KafkaColumns) -> KafkaTopic:
    """Return the Kafka topic of *table* in Spark's terms.

    Raises DefinitionInvalid or Unsupported naming the option or the column.
    """
    translated = kafka_options(table, options)
    fields = _fields(table, options, columns)
    key, value = _parts(table, options, fields, _named_key(table, options, fields))
    # A column that is in both parts is read from the value, as in Flink.
    return _topic(table, options, translated, columns, [value] if key is None else [key, value])


def upsert_topic(
    table: str, options: Mapping[str, str], columns: KafkaColumns, keys: Sequence[str]
) -> KafkaTopic:
    """Return the topic of an upsert *table*.

    Each record sets or deletes the row that the columns *keys* identify. Raises DefinitionInvalid without a
    key.
    """
    translated = upsert_options(table, options)
    fields = _fields(table, options, columns)
    key_fields = _primary_key(table, options, fields, keys)
    key, value = _parts(table, options, fields, key_fields)
    if key is None:
        raise DefinitionInvalid(
            f"Table {table}: connector '{options['connector']}' needs a PRIMARY KEY (…) NOT ENFORCED, "
            "which defines the keys of its records; add it to the columns."
        )
    # A tombstone has only a key, so key columns must be read from the key.
    topic = _topic(table, options, translated, columns, [value, key])
    condition = f"{key.condition} AND (value IS NULL OR {value.condition})"
    return replace(topic, condition=condition, keys=tuple(each.name for each in key_fields))


def _topic(
    table: str,
    options: Mapping[str, str],
    translated: KafkaOptions,
    columns: KafkaColumns,
    record: Sequence[Part],
) -> KafkaTopic:
    """Return the topic of a table whose records have the parts *record*.

    A column that is in several parts is read from the last of them.
    """
    parts = {field.name: part for part in record for field in part.fields}
    items = [
        _metadata_item(table, options, spec, columns.metadata[spec.name])
        if spec.name in columns.metadata
        else f"{parts[spec.name].item(spec)} AS {quote(spec.name)}"
        for spec in columns.specs
        if spec.name not in columns.computed
    ]
    computed = [
        f"({columns.computed[spec.name]}) AS {quote(spec.name)}"
        if spec.name in columns.computed
        else quote(spec.name)
        for spec in columns.specs
    ]
    written, written_record, reason = _writing(table, options, columns, record)
    headers = any(each.key == "headers" for each in columns.metadata.values())
    return KafkaTopic(
        table=table,
        topics=translated.topics,
        connection=translated.connection,
        start=translated.start,
        end=translated.end,
        reading={**translated.reading, **({"includeHeaders": "true"} if headers else {})},
        condition=record[-1].condition,
        parsed=tuple(item for part in record if part in parts.values() for item in part.parsed),
        items=tuple(items),
        computed=tuple(computed) if columns.computed else (),
        written=written,
        record=written_record,
        not_written=reason,
    )


def _fields(table: str, options: Mapping[str, str], columns: KafkaColumns) -> dict[str, ColumnSpec]:
    """Return the columns that are physical fields of a record, by lower-case name."""
    fields = {
        spec.name.lower(): spec
        for spec in columns.specs
        if spec.name not in columns.metadata and spec.name not in columns.computed
    }
    if not fields:
        connector = options["connector"]
        raise DefinitionInvalid(
            f"Table {table}: connector '{connector}' needs columns; write them after the name."
        )
    return fields


def _named_key(table: str, options: Mapping[str, str], fields: Mapping[str, ColumnSpec]) -> list[ColumnSpec]:
    """Return the key columns that the option `key.fields` names."""
    names = [name.strip() for name in options.get("key.fields", "").split(";") if name.strip()]
    if bool(options.get("key.format")) != bool(names):
        raise DefinitionInvalid(
            f"Table {table}: options 'key.format' and 'key.fields' require each other; write both or neither."
        )
    prefix = options.get("key.fields-prefix", "")
    for name in names:
        if name.lower() not in fields or not name.startswith(prefix):
            starts = f" that begins with '{prefix}'" if prefix else ""
            raise DefinitionInvalid(
                f"Table {table}: option 'key.fields' names {name}, which is not a column{starts} "
                "of the table."
            )
    return [fields[name.lower()] for name in names]


def _primary_key(
    table: str, options: Mapping[str, str], fields: Mapping[str, ColumnSpec], keys: Sequence[str]
) -> list[ColumnSpec]:
    """Return the columns of the primary key."""
    prefix = options.get("key.fields-prefix", "")
    for key in keys:
        if key.lower() not in fields:
            raise DefinitionInvalid(
                f"Table {table}: column {key} of the PRIMARY KEY is a computed or metadata column, which is "
                f"not part of a record's key; choose from {', '.join(each.name for each in fields.values())}."
            )
        if not fields[key.lower()].name.startswith(prefix):
            raise DefinitionInvalid(
                f"Table {table}: column {key} of the PRIMARY KEY does not begin with '{prefix}', "
                "the 'key.fields-prefix'; rename it, or leave the option out."
            )
    return [fields[key.lower()] for key in keys]


def _parts(
    table: str, options: Mapping[str, str], fields: Mapping[str, ColumnSpec], key_fields: Sequence[ColumnSpec]
) -> tuple[Part | None, Part]:
    """Return the part of the key (None if the key is not read) and the part of the value."""
    prefix = options.get("key.fields-prefix", "")
    key_format, key_options = format_options(table, options, "key")
    include = options.get("value.fields-include", "ALL").upper()
    if include not in {"ALL", "EXCEPT_KEY"}:
        raise DefinitionInvalid(
            f"Table {table}: option 'value.fields-include' is '{include}'; expected ALL or EXCEPT_KEY."
        )
    if prefix and include == "ALL":
        raise DefinitionInvalid(
            f"Table {table}: option 'key.fields-prefix' needs 'value.fields-include' = "
            "'EXCEPT_KEY', as in Flink."
        )
    value_fields = [field for field in fields.values() if include == "ALL" or field not in key_fields]
    if not value_fields:
        raise DefinitionInvalid(
            f"Table {table}: 'value.fields-include' = 'EXCEPT_KEY' leaves no column for the value of a "
            "record; write ALL, or add a column."
        )
    value_format, value_options = format_options(table, options, "value")
    value = Part(table=table, column="value", format=value_format, options=value_options, fields=value_fields)
    if not key_fields:
        return None, value
    key = Part(
        table=table, column="key", format=key_format, options=key_options, fields=key_fields, prefix=prefix
    )
    return key, value


def _metadata_item(table: str, options: Mapping[str, str], spec: ColumnSpec, column: MetadataColumn) -> str:
    expression = _METADATA.get(column.key)
    if expression is None:
        raise Unsupported(
            f"Table {table}, column {spec.name}: connector '{options['connector']}' has no metadata "
            f"'{column.key}'; supported are {', '.join(_METADATA)}."
        )
    return f"CAST({expression} AS {spec.type}) AS {quote(spec.name)}"


def _writing(
    table: str, options: Mapping[str, str], columns: KafkaColumns, parts: Sequence[Part]
) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Return the columns that INSERT accepts, the items of a record, and why INSERT is refused.

    The items are SELECT items over these columns. If INSERT is not refused, the reason is empty.
    """
    if "topic" not in options or ";" in options["topic"]:
        return (
            (),
            (),
            (
                f"Table {table} reads several topics, but INSERT writes to one; "
                "create a table with 'topic' = 'name'."
            ),
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
