"""Watches the driver's Spark cluster: whether it has executors, and for how long it has had none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mt_core.spark.driver.failures import SPARK_ERRORS

POLL_EVERY_S = 1.0
_DYNAMIC = "spark.dynamicAllocation.enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The number of executors of a cluster, and whether it should have any at this time."""

    executors: int
    expects_executors: bool

    @property
    def accepts_work(self) -> bool:
        return self.executors > 0 or not self.expects_executors


@dataclass(slots=True)
class ClusterWatch:
    """Measures in `idle_s` for how many seconds a cluster has not accepted work.

    It counts polls instead of reading a clock, so the time during which a machine was suspended is not
    counted.
    """

    state: Callable[[], ClusterState | None]
    lost_after_s: float
    idle_s: float = 0.0

    def poll(self) -> bool:
        """Poll the cluster, `POLL_EVERY_S` seconds after the last poll. Return whether it accepts work."""
        state = self.state()
        if state is None:
            # Spark does not answer or is about to exit. The thread that waits for its process handles that.
            return False
        self.idle_s = 0.0 if state.accepts_work else self.idle_s + POLL_EVERY_S
        return state.accepts_work

    @property
    def lost(self) -> bool:
        """True if the cluster has not accepted work for `lost_after_s` seconds."""
        return 0 < self.lost_after_s <= self.idle_s


def is_cluster(master: str) -> bool:
    """Return whether *master* is a cluster, which may be lost while the driver is running."""
    return not master.startswith("local")


def state_of(context: Any) -> ClusterState | None:
    """Return the state of the cluster of the SparkContext *context*, or None if Spark does not answer."""
    try:
        scala = context._jsc.sc()
        if scala.isStopped():
            return ClusterState(executors=0, expects_executors=True)
        # The map includes the driver.
        executors = scala.getExecutorMemoryStatus().size() - 1
        dynamic = scala.conf().get(_DYNAMIC, "false") == "true"
        expects_executors = not dynamic or bool(list(scala.statusTracker().getActiveJobIds()))
        return ClusterState(executors=executors, expects_executors=expects_executors)
    except (*SPARK_ERRORS, AttributeError, TypeError):
        return None
