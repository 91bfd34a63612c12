"""What no restart mends of a stream that reads Kafka: records that are gone,
and records that its format cannot read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from mt_core.model.kafka_topic import KafkaTopic
from mt_core.spark.connectors.kafka.source import TopicTable

# Spark's own words about records that Kafka no longer has;
# what follows them explains where they can come from.
_GONE = re.compile(r"data may have been lost.*?Reason: (?P<reason>[^\n]+)", re.DOTALL)
_UNREADABLE = re.compile(r"\[MALFORMED_RECORD_IN_PARSING")


def loss_of(tables: Collection[TopicTable], messages: Iterable[str]) -> str | None:
    """Return what became of the records of *tables* if the *messages* of a failure say that,
    with the way out; else None.
    """
    if not tables:
        return None
    names = " or ".join(f"{each.name} (topic {topics_text(each.topic)})" for each in tables)
    for message in messages:
        if found := _GONE.search(message):
            reason = found["reason"].strip().rstrip(".")
            return (
                f"Records of {names} that the stream has not read are gone: {reason}. Run the "
                "INSERT again to begin with those that are there; "
                "'failOnDataLoss' = 'false' in WITH (…) of the table lets a job go on without them."
            )
        if _UNREADABLE.search(message):
            return (
                f"A record of {names} cannot be read with the format of the table. "
                "'json.ignore-parse-errors' = 'true' or 'csv.ignore-parse-errors' = 'true' in WITH (…) of "
                "the table passes over what cannot be read."
            )
    return None


def topics_text(topic: KafkaTopic) -> str:
    """Return the names of the topics, or the pattern of them."""
    return ", ".join(topic.topics.values())
