"""Jobs of earlier releases: their checkpoints have state of Spark's own operators, which ours cannot read."""

from __future__ import annotations

from pyspark.sql import SparkSession

OPERATORS = "operators"
"""What the savepoints of a job say whose joins, limits and aggregations are operators of ours."""
LAYOUT = 3
"""The layout of the states of our operators, which a checkpoint names:
higher with each change that Spark cannot read over.
"""
UNNUMBERED = 1
"""That of checkpoints without a number, whose entries have no time of their own."""
_SETTING = "freshtable.operators"
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_ELIMINATE_LIMITS = "org.apache.spark.sql.catalyst.optimizer.EliminateLimits"


def leave_to_spark(session: SparkSession) -> None:
    """Let Spark's own operators run in *session*, whose job began with them."""
    session.conf.set(_SETTING, "false")
    # It takes a LIMIT, which has state, out of a batch without rows, such as the last one of a drain;
    # the batch fails then.
    excluded = session.conf.get(_EXCLUDED, "") or ""
    session.conf.set(_EXCLUDED, ",".join(filter(None, (excluded, _ELIMINATE_LIMITS))))


def is_left_to_spark(session: SparkSession) -> bool:
    """Return whether operators that Spark has too are its own."""
    return session.conf.get(_SETTING, "true") == "false"
