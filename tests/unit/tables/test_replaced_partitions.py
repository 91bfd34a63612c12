"""Partitioned tables without date-formatters: the partitions that changed rows touch are replaced,
the others stay.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from mt_core.clock import SystemClock
from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.shape import Lineage, Occurrence, QueryShape, Reach
from mt_core.incremental.stages.look_ups import NO_FACTS
from mt_core.incremental.strategy import Way
from mt_core.model.partition import WHOLE
from mt_core.model.run import ReasonCode
from mt_core.model.storage import Snapshot, StorageMetadata
from mt_core.model.table import Column, MaterializedTable
from mt_core.tables.engine import (
    Maintenance,
    Query,
    SourceChanges,
    SourceVector,
)
from mt_core.tables.refresh.change_plan import ChangesUntil, plan_change
from mt_core.tables.runs.decide import Decision
from mt_core.tables.services import query_of
from tests.support.blocks import block_over
from tests.support.fake_engine import FakeEngine
from tests.support.memory_registry import MemoryRegistry
from tests.support.registry_facts import a_table
from tests.unit.tables.continuous_table import ORDERS, LiveTable, ProcessEnded

VECTOR = SourceVector(sources=())
STORAGE = StorageMetadata(location="", properties={}, main="1", branches={})
BASE = Snapshot(snapshot_id="1", sources="[]", total_rows=100)


class ChangedEngine(FakeEngine):
    """An engine on which rows of the source of a query that gives `ds` and `k` changed, 1 of 10 bytes,
    or *size* of them.
    """

    def __init__(
        self,
        ds: Lineage,
        k: Lineage,
        *,
        reach: Reach = Reach.GROUPED,
        size: int = 1,
        rows: int = 1,
        kind: str = "string",
    ) -> None:
        super().__init__()
        shape = QueryShape(
            occurrences={0: Occurrence(reach=reach)},
            lineage=(ds, k),
            keys=(0, 1),
            merge="not on top",
            rows=block_over(0) if reach is Reach.LINEAR else "an aggregate is in the query",
        )
        self.found = SourceChanges(
            shape=shape,
            columns=(Column(name="ds", type=kind), Column(name="k", type="bigint")),
            readings=("o",),
            changes={"o": SourceChange(kind=ChangeKind.ROWS, rows=rows, size=size)},
            facts={"o": replace(NO_FACTS, size=10)},
        )

    def changes_since(self, query: Query, since: SourceVector, vector: SourceVector) -> SourceChanges:
        return self.found


def table(strategy: str, *keys: str, kind: str = "string") -> MaterializedTable:
    made = a_table()
    columns = (Column(name="DS", type=kind), Column(name="k", type="bigint"))
    options = {"refresh.strategy": strategy}
    definition = replace(made.definition, columns=columns, options=options, partition_keys=keys)
    return replace(made, definition=definition)


def plan(
    engine: ChangedEngine, stored: MaterializedTable, base: Snapshot = BASE
) -> tuple[Maintenance | None, str | None]:
    until = ChangesUntil(reader=engine, job_id="j", query=query_of(stored.definition), vector=VECTOR)
    decision = Decision(scope=WHOLE, reason="changed", code=ReasonCode.SOURCES_CHANGED, base=base)
    planned = plan_change(MemoryRegistry(SystemClock()), until, stored, STORAGE, decision=decision)
    return planned.maintenance, planned.reason


def way(engine: ChangedEngine, stored: MaterializedTable) -> Way | None:
    maintenance, _ = plan(engine, stored)
    return None if maintenance is None else maintenance.strategy.way


BY_DAY = ChangedEngine({0: "day"}, {})
FINER = ChangedEngine({0: "day"}, {0: "k"})


@pytest.mark.parametrize("strategy", ["auto", "incremental"])
def test_keys_that_are_the_partitions_are_replaced_as_partitions(strategy: str) -> None:
    maintenance, reason = plan(BY_DAY, table(strategy, "DS"))

    assert maintenance is not None
    assert (maintenance.strategy.way, maintenance.strategy.key_columns) == (Way.PARTITIONS, {0: ("day",)})
    assert reason == "the changed rows name the partitions by ds"


def test_a_column_with_the_values_of_the_partitions_makes_no_finer_keys() -> None:
    assert way(ChangedEngine({0: "day"}, {0: "day"}), table("auto", "DS")) is Way.PARTITIONS


def test_keys_within_partitions_are_replaced_as_keys() -> None:
    assert way(FINER, table("auto", "DS")) is Way.KEYS


def test_a_table_without_partitions_has_keys_only() -> None:
    assert way(BY_DAY, table("auto")) is Way.KEYS


@pytest.mark.parametrize(("strategy", "most"), [("auto", 1000), ("incremental", None)])
def test_only_auto_limits_the_keys_that_are_replaced(strategy: str, most: int | None) -> None:
    maintenance, _ = plan(BY_DAY, table(strategy))

    assert maintenance is not None
    assert maintenance.strategy.most_keys == most


def test_many_keys_within_partitions_are_replaced_as_partitions() -> None:
    many = ChangedEngine({0: "day"}, {0: "k"}, rows=90)

    assert way(many, table("auto", "DS")) is Way.PARTITIONS
    assert way(many, table("incremental", "DS")) is Way.KEYS
    assert plan(many, table("auto")) == (None, "recomputed: up to 90 of 100 keys changed")


def test_rows_that_would_cost_a_copy_of_the_table_are_replaced_with_their_partitions() -> None:
    linear = ChangedEngine({0: "day"}, {0: "k"}, reach=Reach.LINEAR)

    ways = []
    for rows in (200_000, 200_001):
        maintenance, _ = plan(linear, table("auto", "DS"), replace(BASE, total_bytes=100, total_rows=rows))
        assert maintenance is not None
        ways.append(maintenance.strategy.way)

    assert ways == [Way.STAGES, Way.PARTITIONS]


def test_sources_of_which_most_changed_are_recomputed() -> None:
    assert plan(ChangedEngine({0: "day"}, {}, size=6), table("auto", "DS")) == (
        None,
        "recomputed: 60% of the sources changed",
    )


@pytest.mark.parametrize("kind", ["timestamp", "double", "string collate UNICODE_CI"])
def test_partitions_whose_values_no_text_names_exactly_are_not_replaced(kind: str) -> None:
    assert way(ChangedEngine({0: "day"}, {}, kind=kind), table("auto", "DS", kind=kind)) is Way.KEYS


def test_partitions_that_storage_rounds_are_not_found_again() -> None:
    engine = ChangedEngine({0: "day"}, {}, kind="decimal(10,2)")

    assert plan(engine, table("auto", "DS", kind="decimal(10,1)")) == (
        None,
        "recomputed: column ds is stored in another type than the query returns",
    )


@pytest.mark.parametrize("step", ["decide", "write", "staged", "publish: commit", "published", "idle"])
def test_a_process_that_ends_at_any_step_replaces_each_partition_once(step: str) -> None:
    world = LiveTable(by_days=True)
    world.append(10)
    world.ends_before = step
    with suppress(ProcessEnded):
        world.look(after=5)
    world.ends_before = None

    world.restart()
    world.recover()
    world.append(11)
    world.look(after=400)
    world.look(after=400)

    assert set(world.ways) == {"partitions"}
    assert world.shows_its_source()


def test_partitions_are_replaced_whose_rows_changed_and_the_others_stay() -> None:
    world = LiveTable(by_days=True)
    source = world.engine.sources[ORDERS]
    world.engine.commit(ORDERS, [*source.versions[source.current][1:], {"ds": "2026-03-03", "amount": 1}])

    world.look(after=5)

    assert world.ways == ["partitions"]
    assert world.shows_its_source()
