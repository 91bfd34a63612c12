"""The contract of stream engines, on the fake that tests of detached jobs stand on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from mt_core.errors import Unsupported
from mt_core.model.stream import StreamDefinition, StreamMember
from tests.support.fake_streams import FakeStreams
from tests.support.registry_facts import a_stream
from tests.support.stream_engine_contract import StreamEngineContract

REFUSED = "INSERT INTO arrivals SELECT max(row) FROM flights"


@dataclass(slots=True)
class FakeWorld:
    """A `StreamWorld`."""

    engine: FakeStreams = field(default_factory=FakeStreams)

    def definition(self, checkpoint: str) -> StreamDefinition:
        return a_stream(checkpoint=checkpoint)

    def refused(self) -> StreamDefinition:
        self.engine.refusals[REFUSED] = Unsupported("This query updates rows that it has given.")
        return a_stream(members=(StreamMember(text=REFUSED),))

    def folder(self, name: str) -> str:
        return name

    def append(self, *rows: str) -> None:
        self.engine.source.extend(rows)

    def rows(self) -> Sequence[str]:
        return self.engine.sink

    def work(self) -> None:
        self.engine.run_batches()


class TestFakeStreams(StreamEngineContract):
    @pytest.fixture
    def world(self) -> FakeWorld:
        return FakeWorld()
