"""What the manager is told about how to behave."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from mt_core.model.freshness import Freshness


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSettings:
    """Defaults and limits of materialized tables. `owner` names this process in leases; `warehouse` is where storage goes;
    `alter_wait_s` and `drop_wait_s` are how long ALTER (of columns) and DROP wait for a running refresh to end."""

    owner: str
    zone: str = "UTC"
    warehouse: str = ""
    scheduler_type: str = "memory"
    freshness_threshold_s: int = 1800
    default_freshness_full: Freshness = field(default_factory=lambda: Freshness(1, "HOUR"))
    default_freshness_continuous: Freshness = field(default_factory=lambda: Freshness(3, "MINUTE"))
    initial_refresh: bool = True
    max_partitions: int = 366
    lease: timedelta = timedelta(seconds=60)
    intent_wait_s: float = 5.0
    alter_wait_s: float = 60.0
    drop_wait_s: float = 10.0
    history: timedelta = timedelta(days=7)
