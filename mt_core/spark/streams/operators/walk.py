"""One walk over a query plan: the state that its operators share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from mt_core.spark.connectors.changelog import Changelog
from mt_core.spark.streams.operators.state_ttls import StateTtls


@dataclass(frozen=True, slots=True)
class Walk:
    """One walk over a plan, with the TTLs of the query's states.

    `changelog` returns the changelog of a plan below, after inserting our operators. It raises Unsupported.
    """

    session: SparkSession
    ttls: StateTtls
    changelog: Callable[[Any], Changelog]
