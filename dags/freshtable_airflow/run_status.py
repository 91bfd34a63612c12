"""The status of a run at the gateway: its progress, and its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# So many partitions are named in a line of a log.
MOST_SHOWN = 20
ENDED = frozenset({"FINISHED", "CANCELED", "CLOSED", "ERROR", "TIMEOUT"})


@dataclass(frozen=True)
class Progress:
    """A run's status, and the progress of its work ("" and 0 where the gateway reports none)."""

    status: str
    done: int = 0
    total: int = 0
    message: str = ""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Progress:
        """Return what the body of a status answer says."""
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
        """The progress in a line of the task's log."""
        tasks = f"{self.done} of {self.total} Spark tasks" if self.total else ""
        return ", ".join(part for part in (self.status, tasks, self.message) if part)


def partitions_line(body: Mapping[str, Any]) -> str:
    """Return, for a log, the partitions that an answer of the gateway names;
    "" where it does not list them.
    """
    if "partitions" not in body:
        return ""
    partitions = body["partitions"]
    if partitions is None:
        return "the whole table"
    specs = ["/".join(f"{key}={value}" for key, value in spec.items()) for spec in partitions]
    names = ", ".join(specs[:MOST_SHOWN])
    more = f" and {len(specs) - MOST_SHOWN} more" if len(specs) > MOST_SHOWN else ""
    return f"partition{'' if len(specs) == 1 else 's'} {names}{more}"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a finished run; `rows` and `snapshot` are None where the gateway does not report them.

    Any `decision` but "refresh" wrote nothing, because nothing had changed;
    `partitions` are those that it refreshed, as text for a log.
    """

    decision: str
    reason: str
    rows: int | None
    snapshot: str | None
    partitions: str = ""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Outcome:
        """Return what the body of the first page of a run's result says."""
        run = body.get("run") or {}
        return cls(
            decision=str(run.get("decision") or "refresh"),
            reason=str(run.get("reason") or ""),
            rows=run.get("rows"),
            snapshot=run.get("snapshot"),
            partitions=partitions_line(run),
        )

    @property
    def line(self) -> str:
        """The outcome in a line of the task's log."""
        decided = f"decision {self.decision}" + (f" ({self.reason})" if self.reason else "")
        rows = f"{self.rows} row{'' if self.rows == 1 else 's'}" if self.rows is not None else ""
        snapshot = f"snapshot {self.snapshot}" if self.snapshot is not None else ""
        return ", ".join(part for part in (decided, self.partitions, rows, snapshot) if part)
