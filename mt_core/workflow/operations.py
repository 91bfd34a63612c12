"""The operations on workflows, as immutable values that a scheduler matches (FLIP-448 RefreshWorkflow)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from mt_core.errors import WorkflowError
from mt_core.model.cadence import Cadence, Grid
from mt_core.model.cron import Cron
from mt_core.model.freshness import Freshness
from mt_core.workflow.handlers import RefreshHandler


class ScheduleKind(StrEnum):
    """The kinds of schedules that a table can declare."""

    FRESHNESS = "FRESHNESS"
    CRON = "CRON"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a workflow ticks: at the points of `grid()` that are later than *since*.

    A schedule has either a *freshness* or a *cron*, depending on its kind. A scheduler receives only the
    kinds that it declares.
    """

    freshness: Freshness | None = None
    cron: Cron | None = None
    zone: str
    since: datetime

    def __post_init__(self) -> None:
        if (self.freshness is None) is (self.cron is None):
            raise WorkflowError("A schedule needs either a freshness or a cron.")

    @property
    def kind(self) -> ScheduleKind:
        return ScheduleKind.FRESHNESS if self.cron is None else ScheduleKind.CRON

    @property
    def cadence(self) -> Cadence:
        """The freshness or the cron."""
        return self.cron if self.cron is not None else self.interval

    @property
    def interval(self) -> Freshness:
        """The freshness of a FRESHNESS schedule."""
        assert self.freshness is not None, "a schedule of the kind CRON has no freshness"
        return self.freshness

    def grid(self) -> Grid:
        """Return the schedule times, an endless sequence of aware UTC datetimes."""
        return self.cadence.grid(self.zone)

    def description(self, identifier: str) -> str:
        """Return a description for users of what a workflow with this schedule does for *identifier*."""
        return f"Refresh materialized table {identifier} {self.cadence.every}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePeriodicRefreshWorkflow:
    """Create the workflow `workflow_id` (the table's uuid).

    A repetition with the same id returns the same handler. `identifier` is the table's qualified name;
    `init_config` contains the session properties of each tick.
    """

    workflow_id: str
    identifier: str
    description: str
    schedule: Schedule
    init_config: Mapping[str, str] = field(default_factory=dict)
    execution_config: Mapping[str, str] = field(default_factory=dict)
    dynamic_options: Mapping[str, str] = field(default_factory=dict)
    paused: bool = False
    token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendRefreshWorkflow:
    """Stop ticking until resumed.

    `token` orders the operations on one workflow. A scheduler that can compare tokens refuses an operation
    with an older one.
    """

    handler: RefreshHandler
    token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRefreshWorkflow:
    """Tick again. Each tick from now on carries `dynamic_options`, or the earlier options if it is None."""

    handler: RefreshHandler
    dynamic_options: Mapping[str, str] | None = None
    token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModifyRefreshWorkflowSchedule:
    """Tick on another schedule from now on (FLIP-448 ModifyRefreshWorkflowCronExpr)."""

    handler: RefreshHandler
    schedule: Schedule
    token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRefreshWorkflow:
    """Delete the workflow if it exists."""

    handler: RefreshHandler


ModifyRefreshWorkflow = SuspendRefreshWorkflow | ResumeRefreshWorkflow | ModifyRefreshWorkflowSchedule
