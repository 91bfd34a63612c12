"""A table of one partition a day, two days after its CREATE, and how refreshes of it are asked
for by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mt_core.model.run import RefreshRun, RunStatus
from mt_core.tables.table_commands import RefreshRequest
from tests.support.manager_world import DAILY, ManagerWorld

ORDERS = "lake.default.orders"


def daily_world() -> ManagerWorld:
    """Return a world in which the table's first refresh is done, and two points have passed since."""
    made = ManagerWorld()
    made.sql(DAILY)
    made.work()
    made.pass_days(2)
    return made


def manual(
    world: ManagerWorld,
    partitions: Mapping[str, str] | None = None,
    *,
    key: str | None = None,
    **changes: object,
) -> RefreshRun:
    request = RefreshRequest(
        identifier_text="lake.default.daily",
        is_periodic=False,
        static_partitions=partitions or {},
        request_key=key,
    )
    return world.manager.requests.request_refresh(replace(request, **changes))


def statuses(world: ManagerWorld) -> list[RunStatus]:
    """Return the statuses of the table's runs after the first."""
    return [run.status for run in world.runs()[1:]]
