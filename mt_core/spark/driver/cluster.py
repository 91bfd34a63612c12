"""The cluster of Spark's driver: whether it takes work, and for how long it has taken none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mt_core.spark.driver.failures import SPARK_ERRORS

LOOK_EVERY_S = 1.0
_DYNAMIC = "spark.dynamicAllocation.enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """A look at a cluster: its executors, and whether it should have some."""

    executors: int
    wanted: bool

    @property
    def takes_work(self) -> bool:
        return self.executors > 0 or not self.wanted


@dataclass(slots=True)
class ClusterWatch:
    """Counts in `idle_s` for how long a cluster has taken no work. It counts looks, not seconds:
    a machine that was suspended has missed none."""

    state: Callable[[], ClusterState | None]
    lost_after_s: float
    idle_s: float = 0.0

    def look(self) -> bool:
        """Look once more, LOOK_EVERY_S after the last time; return whether the cluster takes work."""
        state = self.state()
        if state is None:
            # Spark does not answer, or is about to end: the thread that waits for its process notices that.
            return False
        self.idle_s = 0.0 if state.takes_work else self.idle_s + LOOK_EVERY_S
        return state.takes_work

    @property
    def lost(self) -> bool:
        """Whether the cluster has taken no work for too long."""
        return 0 < self.lost_after_s <= self.idle_s


def is_cluster(master: str) -> bool:
    """Return whether *master* names something that can be lost while the driver lives."""
    return not master.startswith("local")


def state_of(context: Any) -> ClusterState | None:
    """Return the state of the cluster for the SparkContext *context*; None when Spark does not answer."""
    try:
        scala = context._jsc.sc()
        if scala.isStopped():
            return ClusterState(executors=0, wanted=True)
        # The driver itself is among them.
        executors = scala.getExecutorMemoryStatus().size() - 1
        dynamic = scala.conf().get(_DYNAMIC, "false") == "true"
        wanted = not dynamic or bool(list(scala.statusTracker().getActiveJobIds()))
        return ClusterState(executors=executors, wanted=wanted)
    except (*SPARK_ERRORS, AttributeError, TypeError):
        return None
