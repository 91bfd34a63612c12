"""Loads the scheduler that `workflow-scheduler.type` names from the installed entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from mt_core.base.plugins import plugin_class
from mt_core.errors import PluginError
from mt_core.workflow.scheduler import ENTRY_POINT_GROUP, SchedulerHooks, WorkflowScheduler


def load_scheduler(identifier: str) -> type[WorkflowScheduler]:
    """Return the scheduler class *identifier*, importing only its plug-in.

    Raises PluginError if it is missing, ambiguous or unusable.
    """
    point = _entry_point(identifier)
    return plugin_class(
        point, noun="workflow scheduler", hooks=SchedulerHooks, offer="mt_workflow_schedulers"
    )


def _entry_point(identifier: str) -> EntryPoint:
    points = entry_points(group=ENTRY_POINT_GROUP)
    matching = {point.value: point for point in points if point.name == identifier}
    if not matching:
        names = ", ".join(sorted({point.name for point in points})) or "none"
        raise PluginError(f"workflow-scheduler.type {identifier!r} is not installed; installed: {names}.")
    if len(matching) > 1:
        owners = " and ".join(
            sorted(f"{value} ({point.dist.name if point.dist else '?'})" for value, point in matching.items())
        )
        raise PluginError(f"workflow-scheduler.type {identifier!r} is claimed by {owners}; uninstall one.")
    return next(iter(matching.values()))
