"""Jobs of earlier releases: their checkpoints have state of Spark's operators, which ours cannot read."""

from __future__ import annotations

from pyspark.sql import SparkSession

OPERATORS = "operators"
"""The savepoint fact of jobs whose joins, limits and aggregates are our operators."""
LAYOUT = 3
"""The version of our operators' state layout in checkpoints, increased with each incompatible change."""
UNNUMBERED = 1
"""The layout version of checkpoints that do not store a version. Their entries have no time."""
_SETTING = "freshtable.operators"
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_ELIMINATE_LIMITS = "org.apache.spark.sql.catalyst.optimizer.EliminateLimits"


def leave_to_spark(session: SparkSession) -> None:
    """Use Spark's own operators in *session*, because its job started with them."""
    session.conf.set(_SETTING, "false")
    # This rule removes the stateful LIMIT from a batch without rows, which then fails. The last batch of a
    # drain is such a batch.
    excluded = session.conf.get(_EXCLUDED, "") or ""
    session.conf.set(_EXCLUDED, ",".join(filter(None, (excluded, _ELIMINATE_LIMITS))))


def is_left_to_spark(session: SparkSession) -> bool:
    """Return whether *session* uses Spark's own operators wherever Spark has them."""
    return session.conf.get(_SETTING, "true") == "false"
