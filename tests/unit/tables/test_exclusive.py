from __future__ import annotations

import pytest

from mt_core.errors import TableBusy
from mt_core.model.storage import MetadataChange
from mt_core.tables.refresh.exclusive_claim import fence
from mt_core.tables.registry import in_transaction
from tests.support.manager_world import WHOLE_TABLE, ManagerWorld
from tests.support.marks import mark


def test_a_fence_that_comes_late_changes_nothing_under_a_newer_claim() -> None:
    world = ManagerWorld()
    world.sql(WHOLE_TABLE)
    world.work()
    table = world.table("totals")
    late = in_transaction(world.registry, lambda tx: tx.tables.next_claim(table.table_id))
    newer = in_transaction(world.registry, lambda tx: tx.tables.next_claim(table.table_id))
    metadata = world.engine.load(table.identifier)
    world.engine.swap(table.identifier, metadata, MetadataChange(properties=mark(newer), branch="run_live_1"))
    before = world.engine.load(table.identifier)

    with pytest.raises(TableBusy, match="took over materialized table"):
        fence(world.services, table, late)

    assert world.engine.load(table.identifier) == before


def test_a_run_whose_table_is_gone_keeps_no_other_run_waiting() -> None:
    world = ManagerWorld()
    world.sql(WHOLE_TABLE)
    gone = world.table("totals")
    world.sql(WHOLE_TABLE.replace("totals", "others"))
    in_transaction(world.registry, lambda tx: tx.tables.delete(gone.table_id))

    claimed = world.claim()

    assert claimed is not None
    assert claimed.table.identifier.name == "others"
