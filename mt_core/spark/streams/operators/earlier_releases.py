"""Jobs of earlier releases: their checkpoints have state of Spark's own operators, which ours cannot read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

OPERATORS = "operators"
"""What a job has pinned, and its savepoints say, whose joins, limits and aggregations are operators of ours."""
_SETTING = "freshtable.operators"


def leave_to_spark(session: SparkSession, pinned: Mapping[str, Any]) -> None:
    """Let Spark's own operators run in *session* if the job that has *pinned* this began with them."""
    if pinned and not pinned.get(OPERATORS):
        session.conf.set(_SETTING, "false")


def is_left_to_spark(session: SparkSession) -> bool:
    """Return whether operators that Spark has too are its own."""
    return session.conf.get(_SETTING, "true") == "false"
