"""The status of a run at the gateway: its progress and its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The maximum number of partitions that a log line names.
MOST_SHOWN = 20
ENDED = frozenset({"FINISHED", "CANCELED", "CLOSED", "ERROR", "TIMEOUT"})


@dataclass(frozen=True)
class Progress:
    """The status of a run and the progress of its work ("" and 0 if the gateway reports none)."""

    status: str
    done: int = 0
    total: int = 0
    message: str = ""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Progress:
        """Return the progress in the body of a status response."""
        progress = body.get("progress") or {}
        return cls(
            status=str(body["status"]),
            done=int(progress.get("tasksDone") or 0),
            total=int(progress.get("tasksTotal") or 0),
            message=str(progress.get("message") or ""),
        )

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self.status in ENDED

    @property
    def line(self) -> str:
        """The progress as a line of the task's log."""
        tasks = f"{self.done} of {self.total} Spark tasks" if self.total else ""
        return ", ".join(part for part in (self.status, tasks, self.message) if part)


def partitions_line(body: Mapping[str, Any]) -> str:
    """Return up to `MOST_SHOWN` of the partitions in a response of the gateway as text for a log."""
    partitions = body["partitions"]
    if partitions is None:
        return "the whole table"
    specs = ["/".join(f"{key}={value}" for key, value in spec.items()) for spec in partitions]
    names = ", ".join(specs[:MOST_SHOWN])
    more = f" and {len(specs) - MOST_SHOWN} more" if len(specs) > MOST_SHOWN else ""
    return f"partition{'' if len(specs) == 1 else 's'} {names}{more}"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a completed run; `rows` and `snapshot` are None if the gateway does not report them.

    With any `decision` other than "refresh", nothing had changed and nothing was written. `partitions` are
    the refreshed partitions as text for a log.
    """

    decision: str
    reason: str
    rows: int | None
    snapshot: str | None
    partitions: str

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Outcome:
        """Return the outcome in the first page of a run's result."""
        run = body["run"]
        return cls(
            decision=str(run.get("decision") or "refresh"),
            reason=str(run.get("reason") or ""),
            rows=run.get("rows"),
            snapshot=run.get("snapshot"),
            partitions=partitions_line(run),
        )

    @property
    def line(self) -> str:
        """The outcome as a line of the task's log."""
        decision = f"decision {self.decision}" + (f" ({self.reason})" if self.reason else "")
        rows = f"{self.rows} row{'' if self.rows == 1 else 's'}" if self.rows is not None else ""
        snapshot = f"snapshot {self.snapshot}" if self.snapshot is not None else ""
        return ", ".join(part for part in (decision, self.partitions, rows, snapshot) if part)
