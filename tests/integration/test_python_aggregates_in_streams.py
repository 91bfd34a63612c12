"""Aggregates of Python in streams: refused by name, since no operator can take a row of theirs back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql.pandas.functions import pandas_udf

from mt_core.errors import Unsupported
from mt_core.model.stream import StreamMember
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.driver.spark_driver import SparkDriver
from tests.integration.stream_world import StreamWorld

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def median(numbers: pd.Series) -> float:
    return float(numbers.median())


@pytest.fixture
def world(spark_driver: SparkDriver, tmp_path: Path) -> Iterator[StreamWorld]:
    world = StreamWorld(spark_driver, tmp_path)
    yield world
    world.stop_all()


@pytest.mark.parametrize("keys", ["", " GROUP BY row"])
def test_an_aggregate_of_python_in_a_stream_is_refused_by_name(world: StreamWorld, keys: str) -> None:
    member = StreamMember(text=f"INSERT INTO arrivals SELECT string(middle(length(row))) FROM flights{keys}")
    sessions = world.engine._sessions
    definition = world.definition(members=(member,))

    with sessions.passing(definition) as session, active_session(session):
        session.udf.register("middle", pandas_udf(median, "double"))
        with pytest.raises(Unsupported) as refused:
            sessions.member(session, member, definition.settings).changelog({})

    assert refused.value.message.startswith("middle(")
    assert refused.value.message.endswith(
        ": a stream supports aggregate functions of Spark and Java, but not of Python."
    )
