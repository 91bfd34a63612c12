"""Refresh handlers: how a workflow is found again in its scheduler (FLIP-448 RefreshHandler)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from mt_core.errors import WorkflowError

HANDLER_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshHandler:
    """Where a refresh workflow lives: the scheduler's identifier, the workflow's id (the table's uuid), and what else it needs."""

    scheduler: str
    workflow_id: str
    location: Mapping[str, str] = field(default_factory=dict)

    def serialize(self) -> str:
        """Return versioned JSON; the same handler always gives the same text."""
        body = {
            "version": HANDLER_VERSION,
            "scheduler": self.scheduler,
            "workflow_id": self.workflow_id,
            "location": dict(self.location),
        }
        return json.dumps(body, sort_keys=True)

    def check_scheduler(self, identifier: str) -> None:
        """Raise WorkflowError if the workflow is not one of the scheduler *identifier*."""
        if self.scheduler != identifier:
            raise WorkflowError(
                f"Refresh workflow {self.workflow_id} belongs to the scheduler {self.scheduler!r}, not to "
                f"{identifier!r}; set workflow-scheduler.type to {self.scheduler!r} to work with it."
            )

    @classmethod
    def deserialize(cls, text: str) -> RefreshHandler:
        """Raises WorkflowError for text that no version of ours wrote."""
        try:
            body = json.loads(text)
            if body["version"] != HANDLER_VERSION:
                raise WorkflowError(
                    f"Refresh handler has version {body['version']}; this release reads version {HANDLER_VERSION}."
                )
            return cls(scheduler=body["scheduler"], workflow_id=body["workflow_id"], location=body["location"])
        except (ValueError, KeyError, TypeError) as cause:
            raise WorkflowError(f"Refresh handler cannot be read: {text[:200]!r}.") from cause
