"""Better errors for queries of Kafka tables whose topics do not exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.sql import SparkSession

from mt_core.base.identifiers import display_name
from mt_core.errors import MtError, QueryFailed, Unsupported
from mt_core.spark.connectors.connector_names import ConnectorNames
from mt_core.spark.connectors.connector_tables import ConnectorSource
from mt_core.spark.connectors.kafka.source import topic_tables
from mt_core.spark.driver.failures import SPARK_ERRORS, translate
from mt_core.spark.driver.jvm_objects import active_session, scala_items, state_of, static_member
from mt_core.spark.queries.relations import base_relations
from mt_core.spark.streams.inserts import query_of

_MISSING = "does not host this topic-partition"
# Matches the text form of Kafka's relation: KafkaRelation(strategy=Subscribe[a, b], start=…
_TOPICS = re.compile(r"strategy=\w+\[(?P<topics>.*?)\], start=")


@contextmanager
def naming_topics(session: SparkSession, text: str, source: ConnectorSource) -> Iterator[None]:
    """Raise QueryFailed with the topics and their tables if the block fails because a topic is missing.

    The block must run *text*.
    """
    try:
        yield
    except (*SPARK_ERRORS, MtError) as error:
        if _MISSING not in str(translate(error)):
            raise
        names = set[str]()
        with suppress(*SPARK_ERRORS, MtError):
            names = _topics_read(session, text, source)
        if not names:
            raise
        raise QueryFailed(
            f"Kafka does not have the topic {' or '.join(sorted(names))}. "
            "Create the topic in Kafka, or DROP the table and create it over another one."
        ) from error


def _topics_read(session: SparkSession, text: str, source: ConnectorSource) -> set[str]:
    """Return the topics that *text* reads, each with the name of its table."""
    with active_session(session):
        state, described = state_of(session), set[str]()
        skip = static_member(session, "org.apache.spark.sql.execution.CommandExecutionMode.SKIP")
        analysed = state.executePlan(_query(session, text), skip()).analyzed()
        names = ConnectorNames(session, source)
        temporary = {", ".join(each.topic.topics.values()): each.name for each in topic_tables(session)}
        plans = [analysed, *scala_items(analysed.subqueriesAll())]
        for leaf in (leaf for plan in plans for leaf in scala_items(plan.collectLeaves())):
            relation = str(leaf.relation().toString()) if leaf.productPrefix() == "LogicalRelation" else ""
            if (match := _TOPICS.search(relation)) is None:
                continue
            topics = match["topics"]
            table = temporary.get(topics, "")
            if leaf.catalogTable().isDefined():
                [base] = base_relations(session, leaf)
                table = display_name(names.public_name(base.parts or ()))
            described.add(f"{topics} of table {table}" if table else topics)
        return described


def _query(session: SparkSession, text: str) -> Any:
    """Return the parsed plan of the query in *text*. Spark cannot analyse an INSERT into a topic."""
    try:
        return query_of(session, text)
    except Unsupported:
        # This is an INSERT that streams do not support, such as INSERT OVERWRITE.
        return state_of(session).sqlParser().parsePlan(text)
