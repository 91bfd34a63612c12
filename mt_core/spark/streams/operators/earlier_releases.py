"""Jobs of earlier releases, whose checkpoints contain state of Spark's own operators that ours
cannot read.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

OPERATORS = "operators"
"""The savepoint fact of jobs whose joins, limits and aggregates are our operators."""
LAYOUT = 3
"""The state layout of our operators, stored in checkpoints; increased with each incompatible change."""
UNNUMBERED = 1
"""The layout of checkpoints without a number, whose entries have no time."""
_SETTING = "freshtable.operators"
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_ELIMINATE_LIMITS = "org.apache.spark.sql.catalyst.optimizer.EliminateLimits"


def leave_to_spark(session: SparkSession) -> None:
    """Use Spark's own operators in *session*, whose job began with them."""
    session.conf.set(_SETTING, "false")
    # This rule removes the stateful LIMIT from a batch without rows, such as the last one of a drain, which
    # then fails.
    excluded = session.conf.get(_EXCLUDED, "") or ""
    session.conf.set(_EXCLUDED, ",".join(filter(None, (excluded, _ELIMINATE_LIMITS))))


def is_left_to_spark(session: SparkSession) -> bool:
    """Return whether Spark's own operators are used where Spark has them."""
    return session.conf.get(_SETTING, "true") == "false"
