"""The contract of stream engines, on Spark and on the fake of the detached job tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from mt_core.errors import Unsupported
from mt_core.model.stream import StreamDefinition, StreamMember
from mt_core.spark.driver.spark_driver import SparkDriver
from tests.integration.stream_world import StreamWorld as SparkWorld
from tests.support.fake_streams import FakeStreams
from tests.support.registry_facts import a_reservation, a_stream
from tests.support.stream_engine_contract import StreamEngineContract

REFUSED = "INSERT INTO arrivals SELECT max(row) FROM flights"


@dataclass(slots=True)
class FakeWorld:
    """A `StreamWorld` on the fake engine."""

    engine: FakeStreams = field(default_factory=FakeStreams)

    def definition(self, checkpoint: str) -> StreamDefinition:
        return a_stream(checkpoint=checkpoint)

    def refused(self) -> StreamDefinition:
        self.engine.refusals[REFUSED] = Unsupported("This query updates rows that it has given.")
        return a_stream(members=(StreamMember(text=REFUSED),))

    def creation(self, job_id: str) -> StreamDefinition:
        return a_stream(checkpoint=job_id, creates=a_reservation(job_id))

    def folder(self, name: str) -> str:
        return name

    def append(self, *rows: str) -> None:
        self.engine.source.extend(rows)

    def rows(self) -> Sequence[str]:
        return self.engine.sink

    def take_checkpoint(self, definition: StreamDefinition) -> Callable[[], object]:
        taken = self.engine.checkpoints.pop(definition.checkpoint)
        return partial(self.engine.checkpoints.__setitem__, definition.checkpoint, taken)

    def work(self) -> None:
        self.engine.run_batches()


class TestFakeStreams(StreamEngineContract):
    @pytest.fixture
    def world(self) -> FakeWorld:
        return FakeWorld()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
class TestSparkStreams(StreamEngineContract):
    @pytest.fixture
    def world(self, module_driver: SparkDriver, tmp_path: Path) -> Iterator[SparkWorld]:
        world = SparkWorld(module_driver, tmp_path)
        yield world
        world.stop_all()
