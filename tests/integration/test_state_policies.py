"""States with TTL policies on a real Spark: users' processors in Python, by a clock that stands still."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.state import TtlPolicy, TtlTimeCharacteristic, TtlUpdateEvent, transform_with_state
from tests.depth import DEPTH, rounds
from tests.integration.operator_stream import Change, OperatorStream
from tests.support.state_commands import OUTPUT, STATES, Command, StateCommands
from tests.support.state_model import Moment, StateModel

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600 * DEPTH)]

EVENT, PROCESSING = TtlTimeCharacteristic.EVENT_TIME, TtlTimeCharacteristic.PROCESSING_TIME
READ_WRITE = TtlUpdateEvent.ON_READ_WRITE
START_MS = 1_000_000
BATCHES = rounds(4, 10)
MOST_STARTS = 3
COMMANDS: list[Command] = [
    ("value", "update", 1),
    ("value", "get"),
    ("list", "append", 2),
    ("map", "update", "a", 3),
    ("map", "update", "b", 4),
    ("map", "get", "a"),
]
STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
COLUMNS = "k STRING, ts BIGINT, commands STRING"


class Commands(OperatorStream):
    """A stream of commands through a processor, a batch for each command."""

    def run(self, *commands: Command, key: str = "k", at: int = 0) -> list[Any]:
        """Run *commands* in a batch, at the event time *at* in seconds; return what was seen."""
        row = {"k": key, "ts": 1000 * at, "commands": json.dumps(commands)}
        return [json.loads(columns["seen"]) for _, columns in self.feed(row)]

    def _given(self) -> Sequence[Change]:
        for _ in range(MOST_STARTS - 1):
            try:
                return super()._given()
            except StreamingQueryException as cause:
                # Spark gives the Python process of a stream ten seconds to begin,
                # which a busy machine may not have.
                if "failed to connect back" not in str(cause):
                    raise
                self.restart()
        return super()._given()

    def kept(self, state: str) -> int:
        """Return how many entries of *state* are in the store, expired or not."""
        reader = self._session.read.format("statestore").option("stateVarName", state)
        return reader.load(str(self._folder)).count()


@pytest.fixture(autouse=True)
def _python_of_the_tests(module_driver: SparkDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    # Spark would start the python3 of the PATH, which may have no protobuf.
    monkeypatch.setattr(module_driver.session.sparkContext, "pythonExec", sys.executable)


@contextmanager
def commands(
    driver: SparkDriver, folder: Path, policies: Mapping[str, TtlPolicy], time: TtlTimeCharacteristic
) -> Iterator[Commands]:
    session = driver.new_session()
    session.conf.set("spark.sql.streaming.stateStore.providerClass", STORE)
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    stream = Commands(session, folder, COLUMNS, processed(policies, time))
    yield stream
    stream.stop()


def processed(policies: Mapping[str, TtlPolicy], time: TtlTimeCharacteristic) -> Any:
    def operator(rows: DataFrame) -> DataFrame:
        timed = rows.selectExpr("*", "timestamp_millis(ts) AS at").withWatermark("at", "0 seconds")
        return transform_with_state(
            timed.groupBy("k"), StateCommands(policies), output=OUTPUT, time=time, event_time="at"
        )

    return operator


def random_policy(chance: Random, time: TtlTimeCharacteristic) -> TtlPolicy:
    return TtlPolicy.of_seconds(chance.randint(2, 8), time, chance.choice(list(TtlUpdateEvent)))


def seconds(count: int) -> timedelta:
    return timedelta(seconds=count)


def test_the_example_of_flip_24_expires_at_31(module_driver: SparkDriver, tmp_path: Path) -> None:
    policy = TtlPolicy.of_seconds(16, PROCESSING, READ_WRITE)
    get = ("value", "get")

    with commands(module_driver, tmp_path, dict.fromkeys(STATES, policy), PROCESSING) as stream:
        seen = [stream.run(("value", "update", 1))]
        stream.wait(seconds(2))
        seen += [stream.run(("value", "update", 2))]
        stream.wait(seconds(13))
        seen += [stream.run(get)]
        stream.wait(seconds(1))
        seen += [stream.run(("timer", "times"), key="other")]
        stream.wait(seconds(15))
        seen += [stream.run(get)]

    assert seen == [[[]], [[]], [[[2]]], [[{}]], [[[]]]]


def test_states_in_both_times_are_as_the_model_says_through_a_restart_with_other_policies(
    module_driver: SparkDriver, tmp_path: Path
) -> None:
    chance, processing, watermark = Random(24), START_MS, 0
    policies = {
        state: random_policy(chance, time)
        for state, time in zip(STATES, (EVENT, PROCESSING, EVENT), strict=True)
    }
    model = StateModel(policies)

    with commands(module_driver, tmp_path, policies, EVENT) as stream:
        for batch in range(BATCHES):
            later, at = chance.randint(0, 4), watermark // 1000 + chance.randint(0, 4)
            stream.wait(seconds(later))
            processing += 1000 * later
            if batch == BATCHES // 2:
                model.policies = {
                    state: random_policy(chance, policy.time) for state, policy in policies.items()
                }
                stream.restart(processed(model.policies, EVENT))
            done = [*(chance.choice(COMMANDS) for _ in range(2)), ("list", "get"), ("map", "items")]

            seen = stream.run(*done, at=at)

            assert seen == [
                model.run(done, Moment(processing=processing, watermark=watermark, row=1000 * at))
            ]
            watermark = max(watermark, 1000 * at)


def test_the_timer_of_the_states_runs_before_that_of_the_processor(
    module_driver: SparkDriver, tmp_path: Path
) -> None:
    policies = dict.fromkeys(STATES, TtlPolicy.of_seconds(10, EVENT))

    with commands(module_driver, tmp_path, policies, EVENT) as stream:
        seen = [stream.run(("value", "update", 1), ("timer", "register", "mine", 15_000), at=5)]
        seen += [stream.run(("value", "get"), at=14)]
        seen += [stream.run(("timer", "times"), at=15)]
        seen += [stream.run(("timer", "times"), at=16)]
        kept = stream.kept("value")

    assert seen == [[[]], [[[1]]], [[{"mine": 15_000}]], [[{"mine": 15_000}], ["mine", False]]]
    assert kept == 0
