"""How what changed is applied to stored rows, and which types of them keep it from being applied."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import pytest

from mt_core.clock import SystemClock
from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.merging import Merge
from mt_core.incremental.shape import Occurrence, QueryShape, Reach
from mt_core.incremental.stages.look_ups import NO_FACTS
from mt_core.incremental.strategy import Way
from mt_core.model.partition import WHOLE
from mt_core.model.run import ReasonCode
from mt_core.model.storage import Snapshot, StorageMetadata
from mt_core.model.table import Column
from mt_core.tables.engine import Query, SourceChanges, SourceVector
from mt_core.tables.refresh.change_plan import ChangesUntil, plan_change
from mt_core.tables.runs.decide import Decision
from mt_core.tables.services import query_of
from tests.support.blocks import block_over
from tests.support.fake_engine import FakeEngine
from tests.support.memory_registry import MemoryRegistry
from tests.support.registry_facts import a_table

VECTOR = SourceVector(sources=())
STORAGE = StorageMetadata(location="", properties={}, main="1", branches={})
BASE = Snapshot(snapshot_id="1", sources="[]")
CHANGED = Decision(scope=WHOLE, reason="o changed", code=ReasonCode.SOURCES_CHANGED, base=BASE)
DOUBLES = (Column(name="k", type="double"), Column(name="n", type="bigint"))


class ChangedEngine(FakeEngine):
    """An engine on which a source of a query that gives DOUBLES changed."""

    def __init__(
        self,
        kind: ChangeKind,
        reach: Reach,
        merge: Merge | str = "not at the top",
        columns: tuple[Column, ...] = DOUBLES,
    ) -> None:
        super().__init__()
        shape = QueryShape(
            occurrences={0: Occurrence(reach=reach)},
            lineage=({0: "k"}, {}),
            keys=(0,),
            merge=merge,
            rows=block_over(0) if reach is Reach.LINEAR else "an aggregate is in the query",
        )
        change, self.unaffected = SourceChange(kind=kind), frozenset[int]()
        self.found = SourceChanges(
            shape=shape,
            columns=columns,
            readings=("o",),
            changes={"o": change},
            facts={"o": replace(NO_FACTS, size=1)},
        )

    def changes_since(self, query: Query, since: SourceVector, vector: SourceVector) -> SourceChanges:
        return self.found

    def check_changes(
        self, job_id: str, query: Query, since: SourceVector, vector: SourceVector, changes: SourceChanges
    ) -> SourceChanges:
        return replace(changes, unaffected=self.unaffected)


KEYS = ChangedEngine(ChangeKind.ROWS, Reach.GROUPED)
MERGE = ChangedEngine(ChangeKind.APPENDS, Reach.GROUPED, merge=(None, "Sum"))
ROWS = ChangedEngine(ChangeKind.ROWS, Reach.LINEAR)
SUMS = (Column(name="k", type="bigint"), Column(name="n", type="double"))


def plan(engine: ChangedEngine, k: str, n: str = "bigint", **options: str) -> Way | str | None:
    """Return the way, or the reason for a recomputation, with these types of the table's columns."""
    columns = (Column(name="n", type=n), Column(name="K", type=k))
    table = a_table()
    definition = replace(
        table.definition, columns=columns, options={"refresh.strategy": "incremental", **options}
    )
    stored = replace(table, definition=definition)
    until = ChangesUntil(reader=engine, job_id="j", query=query_of(definition), vector=VECTOR)
    changed = plan_change(MemoryRegistry(SystemClock()), until, stored, STORAGE, decision=CHANGED)
    return changed.reason if changed.maintenance is None else changed.maintenance.strategy.way


@pytest.mark.parametrize(("engine", "way"), [(KEYS, Way.KEYS), (MERGE, Way.MERGE), (ROWS, Way.STAGES)])
def test_what_is_stored_exactly_is_maintained(engine: ChangedEngine, way: Way) -> None:
    assert plan(engine, "double") is way


def test_keys_that_storage_rounds_are_not_found_again() -> None:
    assert plan(KEYS, "float") == "recomputed: column k is stored in another type than the query returns"


def test_other_columns_than_the_keys_may_be_rounded() -> None:
    assert plan(KEYS, "double", "int") is Way.KEYS


def test_rounded_values_do_not_combine_so_that_their_keys_are_replaced() -> None:
    assert plan(MERGE, "double", "int") is Way.KEYS


@pytest.mark.parametrize(
    ("kind", "sums", "way"),
    [
        (ChangeKind.APPENDS, "exact", Way.KEYS),
        (ChangeKind.APPENDS, "merged", Way.MERGE),
        # What a large value has cost the small ones would not come back with it.
        (ChangeKind.ROWS, "merged", Way.KEYS),
    ],
)
def test_sums_of_doubles_are_added_up_only_if_a_user_asks_for_it(
    kind: ChangeKind, sums: str, way: Way
) -> None:
    engine = ChangedEngine(kind, Reach.GROUPED, merge=(None, "Sum"), columns=SUMS)

    assert plan(engine, "bigint", "double", **{"refresh.sums-of-doubles": sums}) is way
    assert plan(engine, "bigint", "double") is Way.KEYS


def test_nothing_is_done_for_a_change_that_the_query_does_not_read_whatever_its_shape() -> None:
    unread = ChangedEngine(ChangeKind.ROWS, Reach.NONE)
    unread.found = replace(unread.found, changes={"o": SourceChange(kind=ChangeKind.ROWS, rows=9, size=1)})
    read = copy(unread)
    unread.unaffected = frozenset({0})

    assert plan(read, "double") is not Way.NOTHING
    assert plan(unread, "double") is Way.NOTHING
    assert (read.found.changed_bytes, replace(read.found, unaffected=frozenset({0})).changed_bytes) == (1, 0)


def test_rounded_rows_are_taken_out_as_they_were_stored() -> None:
    assert plan(ROWS, "float") is Way.STAGES


@pytest.mark.parametrize("engine", [KEYS, MERGE])
def test_maps_are_no_keys(engine: ChangedEngine) -> None:
    found = replace(engine.found, columns=(Column(name="k", type="map<string,int>"), DOUBLES[1]))
    with_map = copy(engine)
    with_map.found = found

    assert plan(with_map, "map<string,int>") == "recomputed: values of column k cannot be compared"


def test_rows_with_maps_are_not_counted() -> None:
    assert plan(ROWS, "map<string,int>") == "recomputed: values of column K cannot be compared"
