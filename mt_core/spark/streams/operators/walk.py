"""A walk over the plan of a query, as the operators see it that are found on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.connectors.changelog import Changelog
from mt_core.spark.streams.operators.state_ttls import StateTtls


@dataclass(frozen=True, slots=True)
class Walk:
    """One walk, in a session, with the durations of the states of the query.

    `changelog` gives that of a plan below, whose operators are in their places, and raises Unsupported.
    """

    session: SparkSession
    ttls: StateTtls
    changelog: Callable[[Any], Changelog]
