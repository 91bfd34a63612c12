"""Options of the connectors `kafka` and `upsert-kafka`: Flink's names, as those of Spark's reader
and writer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mt_core.base.options import BOOLEAN, INTEGER, suggestion
from mt_core.errors import DefinitionInvalid, MtError, Unsupported

_PROPERTIES, _SERVERS, _GROUP, _RESET = (
    "properties.",
    "properties.bootstrap.servers",
    "properties.group.id",
    "properties.auto.offset.reset",
)
_STARTUP, _BOUNDED = "scan.startup.", "scan.bounded."
# Options of Spark's reader, which have no name in Flink.
_READER = (
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
)
_OF_SCANS = ("mode", "timestamp-millis", "specific-offsets")
_NO_PARALLELISM: Mapping[str, str] = {
    "scan.parallelism": "write 'minPartitions', the least number of tasks that read a batch",
    "sink.parallelism": "leave it out; a batch is written by as many tasks as its query has partitions",
    "sink.transactional-id-prefix": "leave it out; Spark writes records to Kafka at least once",
}
_FROM_THE_BEGINNING = (
    "leave it out; the topic is read from its first record, or rows that have not changed "
    "since would be missing"
)
_ONE_A_KEY = "leave it out; of the rows that a key has in a batch the last one is written"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Connector:
    """The options that a connector has by name and, with other endings, by the beginning;
    and the way out for others of Flink.
    """

    known: tuple[str, ...]
    beginnings: tuple[str, ...]
    refused: Mapping[str, str]


_KAFKA = _Connector(
    known=(
        "connector",
        "topic",
        "topic-pattern",
        _SERVERS,
        *(f"{prefix}{key}" for prefix in (_STARTUP, _BOUNDED) for key in _OF_SCANS),
        "scan.topic-partition-discovery.interval",
        "format",
        "key.format",
        "key.fields",
        "key.fields-prefix",
        "value.format",
        "value.fields-include",
        "sink.delivery-guarantee",
        "sink.partitioner",
        *_READER,
    ),
    beginnings=(
        _PROPERTIES,
        *(f"{part}{form}." for part in ("", "key.", "value.") for form in ("json", "csv", "raw")),
    ),
    refused={**_NO_PARALLELISM, "sink.semantic": "write 'sink.delivery-guarantee' = 'at-least-once'"},
)
_UPSERT_KAFKA = _Connector(
    known=(
        "connector",
        "topic",
        _SERVERS,
        *(f"{_BOUNDED}{key}" for key in _OF_SCANS),
        "key.format",
        "key.fields-prefix",
        "value.format",
        "value.fields-include",
        "sink.delivery-guarantee",
        *_READER,
    ),
    beginnings=(
        _PROPERTIES,
        *(f"{part}{form}." for part in ("key.", "value.") for form in ("json", "csv", "raw")),
    ),
    refused={
        **_NO_PARALLELISM,
        "topic-pattern": "name one topic with 'topic'",
        "format": "write 'key.format' and 'value.format'",
        "key.fields": "leave it out; the PRIMARY KEY names the columns of the key",
        **{f"{_STARTUP}{key}": _FROM_THE_BEGINNING for key in _OF_SCANS},
        _RESET: _FROM_THE_BEGINNING,
        "sink.buffer-flush.max-rows": _ONE_A_KEY,
        "sink.buffer-flush.interval": _ONE_A_KEY,
    },
)
TOPIC_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "kafka": _KAFKA.known,
    "upsert-kafka": _UPSERT_KAFKA.known,
}
"""The options of each connector, without those of formats and of Kafka's own clients."""
_ACCEPTED = {
    "sink.delivery-guarantee": (
        ("at-least-once", "none"),
        "Spark writes records to Kafka at least once; let the reader drop what it has by a key",
    ),
    "sink.partitioner": (("default",), "Kafka's producer chooses by the key; name one with 'key.fields'"),
}
# Spark sets these itself, and refuses them.
_OF_SPARK = (
    "key.deserializer",
    "value.deserializer",
    "key.serializer",
    "value.serializer",
    "enable.auto.commit",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions:
    """The options of one table, translated, but for those of its formats; see KafkaTopic."""

    topics: Mapping[str, str]
    connection: Mapping[str, str] = field(repr=False)
    start: Mapping[str, str]
    end: Mapping[str, str] | None
    reading: Mapping[str, str]


def kafka_options(table: str, options: Mapping[str, str]) -> KafkaOptions:
    """Translate the WITH *options* of *table*; raises DefinitionInvalid, Unsupported naming the option
    and the way out.
    """
    return _translated(table, options, _KAFKA)


def upsert_options(table: str, options: Mapping[str, str]) -> KafkaOptions:
    """Translate those of a *table* whose records set and delete rows, as the ones above."""
    translated = _translated(table, options, _UPSERT_KAFKA)
    if ";" in options["topic"]:
        raise Unsupported(
            f"Table {table}: connector '{options['connector']}' is of one topic, "
            "because the records of several have no order; create a table for each."
        )
    for key in ("key.format", "value.format"):
        if key not in options:
            raise _missing(table, options, key)
    return translated


def _translated(table: str, options: Mapping[str, str], connector: _Connector) -> KafkaOptions:
    for key in options:
        _check_known(table, options, key, connector)
    for key, (accepted, way_out) in _ACCEPTED.items():
        if options.get(key, accepted[0]).lower() not in accepted:
            raise Unsupported(
                f"Table {table}: option '{key}' = '{options[key]}' is not supported; {way_out}."
            )
    reading = {key: options[key] for key in _READER if key in options}
    if (group := options.get(_GROUP)) is not None:
        # Each query has a group of its own, or two of them would share the records.
        reading["groupIdPrefix"] = group
    return KafkaOptions(
        topics=_topics(table, options),
        connection=_connection(table, options),
        start=_start(table, options),
        end=_end(table, options),
        reading=reading,
    )


def _check_known(table: str, options: Mapping[str, str], key: str, connector: _Connector) -> None:
    if key in connector.refused:
        raise Unsupported(f"Table {table}: option '{key}' is not supported; {connector.refused[key]}.")
    if key.removeprefix(_PROPERTIES) in _OF_SPARK:
        raise Unsupported(
            f"Table {table}: option '{key}' is not supported, because Spark sets it itself; leave it out."
        )
    if key in connector.known or key.startswith(connector.beginnings):
        return
    near = suggestion(key, connector.known, likeness=0.6)
    raise DefinitionInvalid(
        f"Table {table}: connector '{options['connector']}' has no option '{key}'; "
        f"{near or 'see the SQL reference for those it has.'}"
    )


def _topics(table: str, options: Mapping[str, str]) -> dict[str, str]:
    names, pattern = options.get("topic"), options.get("topic-pattern")
    if (names is None) == (pattern is None):
        raise DefinitionInvalid(
            f"Table {table}: connector '{options['connector']}' needs one of the options 'topic' "
            "and 'topic-pattern'."
        )
    if names is None:
        return {"subscribePattern": pattern or ""}
    topics = [name.strip() for name in names.split(";") if name.strip()]
    if not topics:
        raise DefinitionInvalid(f"Table {table}: option 'topic' is empty; name a topic, or several as 'a;b'.")
    return {"subscribe": ",".join(topics)}


def _connection(table: str, options: Mapping[str, str]) -> dict[str, str]:
    if not options.get(_SERVERS):
        raise DefinitionInvalid(
            f"Table {table}: connector '{options['connector']}' needs the option '{_SERVERS}', "
            "such as 'host:9092'; add it to WITH (…)."
        )
    return {
        f"kafka.{key.removeprefix(_PROPERTIES)}": value
        for key, value in options.items()
        if key.startswith(_PROPERTIES) and key not in (_GROUP, _RESET)
    }


# ---------------------------------------------------------------------------------------------------- offsets


def _start(table: str, options: Mapping[str, str]) -> dict[str, str]:
    default = "latest-offset" if options.get(_RESET, "").lower() == "latest" else "earliest-offset"
    mode = options.get(f"{_STARTUP}mode", default).lower()
    _check_mode_keys(table, options, _STARTUP, mode)
    match mode:
        case "earliest-offset":
            return {"startingOffsets": "earliest"}
        case "latest-offset":
            return {"startingOffsets": "latest"}
        case "timestamp":
            # As in Flink, a partition without a later record is read from its end.
            return {
                "startingTimestamp": _millis(table, options, _STARTUP),
                "startingOffsetsByTimestampStrategy": "latest",
            }
        case "specific-offsets":
            return {"startingOffsets": _offsets(table, options, _STARTUP)}
    raise _unknown_mode(
        table, _STARTUP, mode, ("earliest-offset", "latest-offset", "timestamp", "specific-offsets")
    )


def _end(table: str, options: Mapping[str, str]) -> dict[str, str] | None:
    mode = options.get(f"{_BOUNDED}mode", "unbounded").lower()
    _check_mode_keys(table, options, _BOUNDED, mode)
    match mode:
        case "unbounded":
            return None
        case "latest-offset":
            return {"endingOffsets": "latest"}
        case "timestamp":
            return {"endingTimestamp": _millis(table, options, _BOUNDED)}
        case "specific-offsets":
            return {"endingOffsets": _offsets(table, options, _BOUNDED)}
    raise _unknown_mode(
        table, _BOUNDED, mode, ("unbounded", "latest-offset", "timestamp", "specific-offsets")
    )


def _check_mode_keys(table: str, options: Mapping[str, str], prefix: str, mode: str) -> None:
    """Refuse an option that another mode than *mode* has."""
    for key in _OF_SCANS[1:]:
        wanted = "timestamp" if key == "timestamp-millis" else key
        if f"{prefix}{key}" in options and mode != wanted:
            raise DefinitionInvalid(
                f"Table {table}: option '{prefix}{key}' goes with '{prefix}mode' = '{wanted}', "
                f"and it is '{mode}'."
            )


def _unknown_mode(table: str, prefix: str, mode: str, modes: Sequence[str]) -> MtError:
    if mode == "group-offsets":
        others = ", ".join(f"'{each}'" for each in modes if each != "specific-offsets")
        return Unsupported(
            f"Table {table}: '{prefix}mode' = 'group-offsets' is not supported, "
            f"because a job keeps its offsets in its checkpoint and not in Kafka; use {others}, "
            f"or 'specific-offsets' with the offsets of the group in '{prefix}specific-offsets'."
        )
    return DefinitionInvalid(
        f"Table {table}: '{prefix}mode' is '{mode}'; expected one of {', '.join(modes)}."
    )


def _millis(table: str, options: Mapping[str, str], prefix: str) -> str:
    key = f"{prefix}timestamp-millis"
    text = _needed(table, options, key)
    if not INTEGER.accepts(text) or int(text) < 0:
        raise DefinitionInvalid(
            f"Table {table}: option '{key}' is '{text}'; expected milliseconds since 1970."
        )
    return text.strip()


def _offsets(table: str, options: Mapping[str, str], prefix: str) -> str:
    """Return `partition:0,offset:42;partition:1,offset:300` as Spark's JSON."""
    key = f"{prefix}specific-offsets"
    text, topic = _needed(table, options, key), options.get("topic", "")
    if not topic or ";" in topic:
        raise DefinitionInvalid(f"Table {table}: option '{key}' goes with one topic; name it with 'topic'.")
    found = dict[str, int]()
    for each in filter(None, (part.strip() for part in text.split(";"))):
        pair = dict(one.partition(":")[::2] for one in each.replace(" ", "").split(","))
        if set(pair) != {"partition", "offset"} or not all(map(str.isdecimal, pair.values())):
            raise DefinitionInvalid(
                f"Table {table}: option '{key}' has '{each}'; "
                "expected partition:0,offset:42;partition:1,offset:300."
            )
        found[pair["partition"]] = int(pair["offset"])
    return json.dumps({topic.strip(): found})


def _needed(table: str, options: Mapping[str, str], key: str) -> str:
    if key not in options:
        raise DefinitionInvalid(f"Table {table}: '{key.rpartition('.')[0]}.mode' needs the option '{key}'.")
    return options[key]


# ---------------------------------------------------------------------------------------------------- formats


def format_options(table: str, options: Mapping[str, str], part: str) -> tuple[str, dict[str, str]]:
    """Return the format of *part*, `key` or `value`, and its options without their prefixes;
    empty for a key without one.

    The value's may stand without its prefix. Raises DefinitionInvalid, Unsupported.
    """
    written = options.get(f"{part}.format") or (options.get("format") if part == "value" else None)
    if written is None:
        if part == "value":
            raise _missing(table, options, "format")
        return "", {}
    name = written.lower()
    known = _FORMAT_OPTIONS.get(name)
    if known is None:
        raise Unsupported(
            f"Table {table}: {part} format '{written}' is not supported; "
            f"supported are {', '.join(_FORMAT_OPTIONS)}. Read the "
            "bytes with 'raw' into a column of type BYTES, and decode them in the query."
        )
    prefixes = [f"{part}.{name}.", *([f"{name}."] if part == "value" else [])]
    found = {
        key.removeprefix(prefix): value
        for prefix in prefixes
        for key, value in options.items()
        if key.startswith(prefix)
    }
    for key, value in found.items():
        accepts = known.get(key)
        if accepts is None:
            raise DefinitionInvalid(
                f"Table {table}: format '{name}' has no option '{name}.{key}'; "
                f"there are {', '.join(known) or 'none'}."
            )
        if not accepts(value):
            raise DefinitionInvalid(f"Table {table}: option '{name}.{key}' cannot be '{value}'.")
    return name, found


def _missing(table: str, options: Mapping[str, str], key: str) -> DefinitionInvalid:
    connector = options["connector"]
    return DefinitionInvalid(
        f"Table {table}: connector '{connector}' needs the option '{key}'; add it to WITH (…)."
    )


def _any(_text: str) -> bool:
    return True


def _one_of(*values: str) -> Callable[[str], bool]:
    return lambda text: text.strip().lower() in values


_FORMAT_OPTIONS: Mapping[str, Mapping[str, Callable[[str], bool]]] = {
    "json": {
        "ignore-parse-errors": BOOLEAN.accepts,
        "fail-on-missing-field": _one_of("false"),
        "timestamp-format.standard": _one_of("sql", "iso-8601"),
        "encode.ignore-null-fields": BOOLEAN.accepts,
    },
    "csv": {
        "field-delimiter": lambda text: len(text) == 1,
        "quote-character": lambda text: len(text) == 1,
        "escape-character": lambda text: len(text) == 1,
        "disable-quote-character": BOOLEAN.accepts,
        "null-literal": _any,
        "ignore-parse-errors": BOOLEAN.accepts,
    },
    "raw": {
        "charset": _one_of("utf-8", "us-ascii", "iso-8859-1", "utf-16", "utf-16be", "utf-16le", "utf-32")
    },
}
