from __future__ import annotations

from mt_core.tables.registry import in_transaction
from tests.support.manager_world import WHOLE_TABLE, ManagerWorld


def test_a_run_whose_table_is_gone_keeps_no_other_run_waiting() -> None:
    world = ManagerWorld()
    world.sql(WHOLE_TABLE)
    gone = world.table("totals")
    world.sql(WHOLE_TABLE.replace("totals", "others"))
    in_transaction(world.registry, lambda tx: tx.tables.delete(gone.table_id))

    claimed = world.claim()

    assert claimed is not None
    assert claimed.table.identifier.name == "others"
