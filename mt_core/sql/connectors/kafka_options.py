"""Options of the connectors `kafka` and `upsert-kafka`, translated from Flink's names to Spark's.

Each WITH option is in one of four groups. Options with an equivalent are translated: the topic, the
`properties.*` of the Kafka client, the start and end of reading, and the formats. Options of Spark's reader
that Flink lacks are accepted under Spark's names. Options of Flink that Spark cannot honor are refused, and
the message says what to do instead (`refused`, `_ACCEPTED`); they are never ignored, because the user would
rely on them. Any other name is treated as a typing error, and the message suggests a similar option.

The group id becomes a prefix, because two queries in one consumer group would share the records. Offsets are
stored in the job's checkpoint and not in Kafka, so `group-offsets` cannot be supported.
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
# Options of Spark's reader that have no equivalent in Flink.
_READER = (
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
)
_SCAN_KEYS = ("mode", "timestamp-millis", "specific-offsets")
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
    """The options of a connector: exact names, prefixes, and the alternatives to refused options of Flink."""

    known: tuple[str, ...]
    beginnings: tuple[str, ...]
    refused: Mapping[str, str]


_KAFKA = _Connector(
    known=(
        "connector",
        "topic",
        "topic-pattern",
        _SERVERS,
        *(f"{prefix}{key}" for prefix in (_STARTUP, _BOUNDED) for key in _SCAN_KEYS),
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
        *(f"{_BOUNDED}{key}" for key in _SCAN_KEYS),
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
        **{f"{_STARTUP}{key}": _FROM_THE_BEGINNING for key in _SCAN_KEYS},
        _RESET: _FROM_THE_BEGINNING,
        "sink.buffer-flush.max-rows": _ONE_A_KEY,
        "sink.buffer-flush.interval": _ONE_A_KEY,
    },
)
TOPIC_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "kafka": _KAFKA.known,
    "upsert-kafka": _UPSERT_KAFKA.known,
}
"""The options of each connector, without those of formats and of Kafka's clients."""
_ACCEPTED = {
    "sink.delivery-guarantee": (
        ("at-least-once", "none"),
        "Spark writes records to Kafka at least once; let the reader deduplicate them by a key",
    ),
    "sink.partitioner": (("default",), "Kafka's producer chooses by the key; name one with 'key.fields'"),
}
# Spark sets these options itself and rejects them in the options of a user.
_SET_BY_SPARK = (
    "key.deserializer",
    "value.deserializer",
    "key.serializer",
    "value.serializer",
    "enable.auto.commit",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions:
    """The translated options of one table, without those of its formats.

    The fields are those of `KafkaTopic`.
    """

    topics: Mapping[str, str]
    connection: Mapping[str, str] = field(repr=False)
    start: Mapping[str, str]
    end: Mapping[str, str] | None
    reading: Mapping[str, str]


def kafka_options(table: str, options: Mapping[str, str]) -> KafkaOptions:
    """Translate the WITH *options* of *table*.

    Raises DefinitionInvalid or Unsupported naming the option and what to write instead.
    """
    return _translated(table, options, _KAFKA)


def upsert_options(table: str, options: Mapping[str, str]) -> KafkaOptions:
    """Translate the WITH *options* of an upsert *table*, as `kafka_options` does."""
    translated = _translated(table, options, _UPSERT_KAFKA)
    if ";" in options["topic"]:
        raise Unsupported(
            f"Table {table}: connector '{options['connector']}' requires exactly one topic, "
            "because records of several topics have no common order; create a table for each."
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
        # Each query needs its own group; two queries in one group would share the records.
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
    if key.removeprefix(_PROPERTIES) in _SET_BY_SPARK:
        raise Unsupported(
            f"Table {table}: option '{key}' is not supported, because Spark sets it itself; leave it out."
        )
    if key in connector.known or key.startswith(connector.beginnings):
        return
    near = suggestion(key, connector.known, likeness=0.6)
    raise DefinitionInvalid(
        f"Table {table}: connector '{options['connector']}' has no option '{key}'; "
        f"{near or 'see the SQL reference for its options.'}"
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
    """Refuse an option that requires a mode other than *mode*."""
    for key in _SCAN_KEYS[1:]:
        required_mode = "timestamp" if key == "timestamp-millis" else key
        if f"{prefix}{key}" in options and mode != required_mode:
            raise DefinitionInvalid(
                f"Table {table}: option '{prefix}{key}' requires '{prefix}mode' = '{required_mode}', "
                f"but it is '{mode}'."
            )


def _unknown_mode(table: str, prefix: str, mode: str, modes: Sequence[str]) -> MtError:
    if mode == "group-offsets":
        others = ", ".join(f"'{each}'" for each in modes if each != "specific-offsets")
        return Unsupported(
            f"Table {table}: '{prefix}mode' = 'group-offsets' is not supported, "
            f"because a job stores its offsets in its checkpoint and not in Kafka; use {others}, "
            f"or 'specific-offsets' with the offsets of the group in '{prefix}specific-offsets'."
        )
    return DefinitionInvalid(
        f"Table {table}: '{prefix}mode' is '{mode}'; expected one of {', '.join(modes)}."
    )


def _millis(table: str, options: Mapping[str, str], prefix: str) -> str:
    key = f"{prefix}timestamp-millis"
    text = _required(table, options, key)
    if not INTEGER.accepts(text) or int(text) < 0:
        raise DefinitionInvalid(
            f"Table {table}: option '{key}' is '{text}'; expected milliseconds since 1970."
        )
    return text.strip()


def _offsets(table: str, options: Mapping[str, str], prefix: str) -> str:
    """Return Spark's JSON for offsets in Flink's form, `partition:0,offset:42;partition:1,offset:300`."""
    key = f"{prefix}specific-offsets"
    text, topic = _required(table, options, key), options.get("topic", "")
    if not topic or ";" in topic:
        raise DefinitionInvalid(
            f"Table {table}: option '{key}' requires exactly one topic; name it with 'topic'."
        )
    offsets = dict[str, int]()
    for each in filter(None, (part.strip() for part in text.split(";"))):
        pair = dict(one.partition(":")[::2] for one in each.replace(" ", "").split(","))
        if set(pair) != {"partition", "offset"} or not all(map(str.isdecimal, pair.values())):
            raise DefinitionInvalid(
                f"Table {table}: option '{key}' has '{each}'; "
                "expected partition:0,offset:42;partition:1,offset:300."
            )
        offsets[pair["partition"]] = int(pair["offset"])
    return json.dumps({topic.strip(): offsets})


def _required(table: str, options: Mapping[str, str], key: str) -> str:
    if key not in options:
        raise DefinitionInvalid(f"Table {table}: '{key.rpartition('.')[0]}.mode' needs the option '{key}'.")
    return options[key]


# ---------------------------------------------------------------------------------------------------- formats


def format_options(table: str, options: Mapping[str, str], part: str) -> tuple[str, dict[str, str]]:
    """Return the format of *part* (`key` or `value`) and its options without their prefixes.

    The format is empty if *part* is a key without a format. Options of the value may omit the prefix
    `value.`. Raises DefinitionInvalid or Unsupported.
    """
    declared_format = options.get(f"{part}.format") or (options.get("format") if part == "value" else None)
    if declared_format is None:
        if part == "value":
            raise _missing(table, options, "format")
        return "", {}
    name = declared_format.lower()
    known = _FORMAT_OPTIONS.get(name)
    if known is None:
        raise Unsupported(
            f"Table {table}: {part} format '{declared_format}' is not supported; "
            f"supported are {', '.join(_FORMAT_OPTIONS)}. Read the "
            "bytes with 'raw' into a column of type BYTES, and decode them in the query."
        )
    prefixes = [f"{part}.{name}.", *([f"{name}."] if part == "value" else [])]
    given_options = {
        key.removeprefix(prefix): value
        for prefix in prefixes
        for key, value in options.items()
        if key.startswith(prefix)
    }
    for key, value in given_options.items():
        accepts = known.get(key)
        if accepts is None:
            raise DefinitionInvalid(
                f"Table {table}: format '{name}' has no option '{name}.{key}'; "
                f"its options are: {', '.join(known) or 'none'}."
            )
        if not accepts(value):
            raise DefinitionInvalid(f"Table {table}: option '{name}.{key}' cannot be '{value}'.")
    return name, given_options


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
