from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from types import NoneType
from typing import get_args

import pytest

from mt_core.app.statement_wiring import wire_statements
from mt_core.sessions.operations.operation import Operation
from mt_core.sessions.session import Session
from mt_core.sessions.statements.handlers import one_table
from mt_core.sql.catalog import CatalogStatement
from mt_core.sql.kinds import KINDS
from mt_core.sql.statements import Statement
from mt_core.testing.fake_clock import FakeClock
from tests.support.fake_commands import FakeRuns, FakeTableCommands
from tests.support.fake_statements import NO_ROWS, FakeStatementEngine
from tests.support.gateway.statements import NOW, statement_ports

VIEW = "CREATE TEMPORARY VIEW v AS SELECT 1"


class World:
    """A session over fakes, and what its statements leave in it."""

    def __init__(self) -> None:
        clock = FakeClock(NOW)
        self.engine = FakeStatementEngine({VIEW: NO_ROWS})
        self.services = wire_statements(
            statement_ports(self.engine, FakeTableCommands(), FakeRuns(clock), clock)
        )
        self.session = Session("s", name=None, defaults={}, properties={}, opened_at=NOW)

    def run(self, text: str, properties: Mapping[str, str] | None = None) -> Operation:
        operation = self.services.executor.submit(self.session, text, properties)
        while not operation.wait(1.0):
            pass
        return operation


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.services.executor.close()


def facts() -> set[type]:
    """Return the classes of facts that readers return; of a statement of Spark's that of None."""
    assert KINDS, "its readers import all modules of facts"
    return {NoneType, *get_args(Statement), *filter(is_fact, below(CatalogStatement))}


def below(cls: type) -> set[type]:
    return {each for one in cls.__subclasses__() for each in {one, *below(one)}}


def is_fact(cls: type) -> bool:
    """Whether it is the class of a statement: a dataclass with slots has replaced another
    class of its name.
    """
    return dataclasses.is_dataclass(cls) and getattr(sys.modules[cls.__module__], cls.__name__) is cls


def test_each_fact_has_a_handler_and_each_handler_a_fact(world: World) -> None:
    assert set(world.services.handlers.of_fact) == facts()


def test_two_handlers_of_a_fact_are_refused() -> None:
    with pytest.raises(ValueError, match="more than one handler: int"):
        one_table({int: 1, str: 2}, {int: 3})


def test_a_statement_that_is_refused_before_its_turn_changes_no_temporary_object(world: World) -> None:
    world.engine.temporary_relations = frozenset({"v"})
    world.run(VIEW)
    [view] = world.session.temporary

    refused = world.run("CREATE TEMPORARY VIEW v AS SELECT 2", {"sql-gateway.worker.threads.max": "1"})
    # Its turn comes after its end.
    world.run("SELECT 1")

    assert refused.error is not None
    assert world.session.temporary == (view,)
