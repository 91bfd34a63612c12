"""What no restart mends of a stream that reads Kafka: records that are gone, and records that its format cannot read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from mt_core.sql.catalog import CreateConnectorTable

_GONE = re.compile(
    r"KAFKA_DATA_LOSS|failOnDataLoss|some data may have been missed|Some data may have been lost", re.IGNORECASE
)
_UNKNOWN = "UnknownTopicOrPartitionException"
_UNREADABLE = "MALFORMED_RECORD_IN_PARSING"
_SPARKS_ADVICE = re.compile(
    r"\s*(?:If you don't want|If you want|Some data may have|To process malformed).*", re.DOTALL
)


def loss_of(tables: Collection[CreateConnectorTable], messages: Iterable[str]) -> str | None:
    """Return what became of the records of *tables* if the *messages* of a failure say that, with the way out; else None."""
    names = " or ".join(f"{each.name[0]} (topic {_topics(each)})" for each in tables)
    if not tables:
        return None
    for message in messages:
        said = _SPARKS_ADVICE.sub("", message).strip().rstrip(".")
        if _GONE.search(message):
            return (
                f"Records of {names} that the stream has not read are gone: {said}. Run the INSERT again to begin with those that "
                "are there; 'failOnDataLoss' = 'false' in WITH (…) of the table lets a job go on without them."
            )
        if _UNREADABLE in message:
            return (
                f"A record of {names} cannot be read with the format of the table: {said}. Write 'json.ignore-parse-errors' = "
                "'true' or 'csv.ignore-parse-errors' = 'true' in WITH (…) of the table to pass over what cannot be read."
            )
    return None


def _topics(table: CreateConnectorTable) -> str:
    return ", ".join(table.kafka.topics.values()) if table.kafka is not None else ""
