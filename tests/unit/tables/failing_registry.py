"""A registry whose commits can be made to fail, or to kill the process before or after they happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from mt_core.clock import Clock
from mt_core.model.table import MaterializedTable, RefreshStatus
from mt_core.testing.fake_clock import FakeClock
from tests.support.manager_world import START, ManagerWorld
from tests.support.memory_registry import MemoryRegistry, MemoryTransaction


class FailingRegistry(MemoryRegistry):
    """`fail_when(before, transaction)` says which commit raises `error`, once;
    `landed` lets it happen nevertheless.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.fail_when: Callable[[Sequence[MaterializedTable], MemoryTransaction], bool] | None = None
        self.error: BaseException = RuntimeError("no error is planned")
        self.landed = False

    @contextmanager
    def transaction(self) -> Iterator[MemoryTransaction]:
        fails = False
        with super().transaction() as transaction:
            before = transaction.tables.page()
            yield transaction
            fails = self.fail_when is not None and self.fail_when(before, transaction)
            if fails:
                self.fail_when = None
            if fails and not self.landed:
                raise self.error
        if fails:
            raise self.error


class Killed(BaseException):
    """The process dies here."""


def failing_world() -> ManagerWorld:
    """A world on a registry that can fail."""
    clock = FakeClock(START)
    made = ManagerWorld(registry=FailingRegistry(clock))
    made.clock = clock
    made.restart()
    return made


def registry_of(world: ManagerWorld) -> FailingRegistry:
    assert isinstance(world.registry, FailingRegistry)
    return world.registry


Tables = Sequence[MaterializedTable]


def activates(before: Tables, tx: MemoryTransaction) -> bool:
    return _initializing(before) and not _initializing(tx.tables.page())


def clears_the_intent(before: Tables, tx: MemoryTransaction) -> bool:
    return _under_way(before) and not _under_way(tx.tables.page())


def takes_an_intent(before: Tables, tx: MemoryTransaction) -> bool:
    return not _under_way(before) and _under_way(tx.tables.page())


def _initializing(tables: Tables) -> bool:
    return any(table.status is RefreshStatus.INITIALIZING for table in tables)


def _under_way(tables: Tables) -> bool:
    return any(table.intent is not None for table in tables)


def buries(before: Tables, tx: MemoryTransaction) -> bool:
    return bool(tx.tombstones.all())
