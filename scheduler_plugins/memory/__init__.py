"""The plug-in `memory`: refresh workflows whose ticks are sent from inside the gateway process."""

from __future__ import annotations

from mt_core.workflow.scheduler import WorkflowScheduler, hookimpl
from scheduler_plugins.memory.scheduler import MemoryScheduler


@hookimpl
def mt_workflow_schedulers() -> list[type[WorkflowScheduler]]:
    return [MemoryScheduler]
