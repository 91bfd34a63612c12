"""The refresh state that a snapshot records for other engines."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from mt_core.model.storage import repeated_summary
from mt_core.tables.engine import SourceVector, SourceVersion, Write
from mt_core.tables.refresh.refresh_state import refresh_state
from tests.support.manager_world import DAILY, ManagerWorld
from tests.unit.tables.continuous_table import LiveTable

BEGAN = datetime(2026, 3, 30, 12, 0, 0, 500_000, UTC)
KEYS = ("refresh-state", "freshtable.refresh-state")


def table(name: str, **version: Any) -> SourceVersion:
    return SourceVersion(name=name, kind="table", version={"uuid": f"uuid of {name}", **version})


ORDERS = table("lake.sales.orders", snapshot="7", at="8")
ITEMS = table("other.`raw.files`.deep.`line items`", snapshot="3", at="3")


def written(vector: SourceVector, fingerprint: str = "ffffffff0000") -> dict[str, Any]:
    """Return the two entries of the summary as JSON."""
    entries = refresh_state(vector, catalog="lake", fingerprint=fingerprint, began_at=BEGAN)
    assert tuple(entries) == KEYS
    return {key: json.loads(text) for key, text in entries.items()}


def test_the_state_names_each_source_table_with_the_snapshot_that_was_read() -> None:
    entries = written(SourceVector(sources=(ORDERS, ITEMS)))

    assert entries["refresh-state"] == {
        "view-version-id": 0xFFFFFFF,
        "refresh-start-timestamp-ms": 1774872000500,
        "source-states": [
            {
                "type": "table",
                "namespace": ["sales"],
                "name": "orders",
                "uuid": "uuid of lake.sales.orders",
                "snapshot-id": 8,
            },
            {
                "type": "table",
                "catalog": "other",
                "namespace": ["raw.files", "deep"],
                "name": "line items",
                "uuid": "uuid of other.`raw.files`.deep.`line items`",
                "snapshot-id": 3,
            },
        ],
    }
    assert entries["freshtable.refresh-state"] == {"version": 1, "omitted": []}


def test_the_version_of_the_view_changes_with_the_fingerprint_and_is_a_positive_integer_of_32_bits() -> None:
    vector = SourceVector(sources=())

    versions = {written(vector, each)["refresh-state"]["view-version-id"] for each in ("f" * 32, "0f" * 16)}

    assert versions == {0xFFFFFFF, 0x0F0F0F0}
    assert all(0 < version < 2**31 for version in versions)


def test_a_source_other_than_an_iceberg_table_at_its_current_version_is_omitted_by_name() -> None:
    others = (
        SourceVersion(name="csv.files", kind="unversioned", version=None),
        SourceVersion(name="lake.sales.recent", kind="view", version={"hash": "h"}),
        SourceVersion(name="lake.sales.rate", kind="function", version={"hash": "h"}),
        table("lake.sales.orders AS OF 5", snapshot="5"),
        table("lake.sales.empty", snapshot=None),
    )

    entries = written(SourceVector(sources=(*others, ORDERS)))

    assert [each["name"] for each in entries["refresh-state"]["source-states"]] == ["orders"]
    assert entries["freshtable.refresh-state"]["omitted"] == sorted(each.name for each in others)


def test_all_sources_are_omitted_if_the_query_may_have_read_other_versions() -> None:
    entries = written(SourceVector(sources=(ORDERS, ITEMS), unpinnable="IDENTIFIER() names a table"))

    assert entries["refresh-state"]["source-states"] == []
    assert entries["freshtable.refresh-state"]["omitted"] == [ORDERS.name, ITEMS.name]


def test_a_snapshot_that_changes_no_rows_repeats_the_state() -> None:
    entries = refresh_state(SourceVector(sources=(ORDERS,)), catalog="lake", fingerprint="f1", began_at=BEGAN)

    assert repeated_summary(entries) == entries


# ------------------------------------------------------------------------------------------------ the setting


def states(world: ManagerWorld) -> list[dict[str, Any] | None]:
    """Return a list to which each write of a world adds its refresh state, None without one."""
    seen: list[dict[str, Any] | None] = []

    def note(write: Write) -> None:
        found = [json.loads(write.summary[key]) for key in KEYS if key in write.summary]
        seen.append(dict(zip(KEYS, found, strict=True)) if found else None)

    world.engine.on_write = note
    return seen


@pytest.mark.parametrize("is_set", [True, False])
def test_each_batch_writes_the_snapshots_that_it_read_if_the_setting_is_on(is_set: bool) -> None:
    world = LiveTable()
    seen = states(world)
    world.ledger.iceberg_refresh_state = is_set

    read = []
    for amount in (10, 11):
        world.append(amount)
        read.append([world.engine.sources["lake.default.orders"].current])
        world.look(after=10)

    assert len(seen) == 2
    snapshots = [
        [each["snapshot-id"] for each in state["refresh-state"]["source-states"]] for state in seen if state
    ]
    assert snapshots == (read if is_set else [])


def test_a_refresh_of_some_partitions_writes_no_state() -> None:
    world = ManagerWorld()
    world.sql(DAILY)
    world.ledger.iceberg_refresh_state = True
    seen = states(world)

    world.work()
    world.engine.commit("lake.default.orders", [{"ds": "2026-03-02", "amount": 2}])
    world.pass_days(1)
    world.tick(world.latest_point())
    world.work()

    whole, partition = seen
    assert whole is not None
    assert whole["freshtable.refresh-state"] == {"version": 1, "omitted": []}
    assert partition is None
