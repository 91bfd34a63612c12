"""Kafka failures that a restart cannot fix: lost records, and records that the format cannot parse."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from mt_core.model.kafka_topic import KafkaTopic
from mt_core.spark.connectors.kafka.source import TopicTable

# Spark's message about records that Kafka has deleted. The text after the reason is general advice.
_GONE = re.compile(r"data may have been lost.*?Reason: (?P<reason>[^\n]+)", re.DOTALL)
_UNREADABLE = re.compile(r"\[MALFORMED_RECORD_IN_PARSING")


def loss_of(tables: Collection[TopicTable], messages: Iterable[str]) -> str | None:
    """Return an error message if *messages* report lost or malformed records, or None.

    The error message says what to do.
    """
    if not tables:
        return None
    names = " or ".join(f"{each.name} (topic {topics_text(each.topic)})" for each in tables)
    for message in messages:
        if found := _GONE.search(message):
            reason = found["reason"].strip().rstrip(".")
            return (
                f"Records of {names} that the stream has not read are gone: {reason}. Run the "
                "INSERT again to begin with the existing records; "
                "'failOnDataLoss' = 'false' in WITH (…) of the table lets a job continue without them."
            )
        if _UNREADABLE.search(message):
            return (
                f"A record of {names} cannot be read with the format of the table. "
                "'json.ignore-parse-errors' = 'true' or 'csv.ignore-parse-errors' = 'true' in WITH (…) of "
                "the table skips such records."
            )
    return None


def topics_text(topic: KafkaTopic) -> str:
    """Return the topic names, or the topic pattern."""
    return ", ".join(topic.topics.values())
