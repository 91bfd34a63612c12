"""Refresh handlers: references to workflows in their scheduler (FLIP-448 RefreshHandler)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from mt_core.errors import WorkflowError

HANDLER_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshHandler:
    """The location of a refresh workflow.

    `scheduler` is the identifier of its scheduler, `workflow_id` the table's uuid, and `location` has any
    other keys that the scheduler needs.
    """

    scheduler: str
    workflow_id: str
    location: Mapping[str, str] = field(default_factory=dict)

    def serialize(self) -> str:
        """Return versioned JSON; equal handlers have equal JSON."""
        body = {
            "version": HANDLER_VERSION,
            "scheduler": self.scheduler,
            "workflow_id": self.workflow_id,
            "location": dict(self.location),
        }
        return json.dumps(body, sort_keys=True)

    def check_scheduler(self, identifier: str) -> None:
        """Raise WorkflowError if the workflow belongs to a scheduler other than *identifier*."""
        if self.scheduler != identifier:
            raise WorkflowError(
                f"Refresh workflow {self.workflow_id} belongs to the scheduler {self.scheduler!r}, not to "
                f"{identifier!r}; set workflow-scheduler.type to {self.scheduler!r} to work with it."
            )

    @classmethod
    def deserialize(cls, text: str) -> RefreshHandler:
        """Return the handler that *text* contains.

        Raises WorkflowError if it has no handler of this version.
        """
        try:
            body = json.loads(text)
            if body["version"] != HANDLER_VERSION:
                raise WorkflowError(
                    f"Refresh handler has version {body['version']}; "
                    f"this release reads version {HANDLER_VERSION}."
                )
            return cls(
                scheduler=body["scheduler"], workflow_id=body["workflow_id"], location=body["location"]
            )
        except (ValueError, KeyError, TypeError) as cause:
            raise WorkflowError(f"Refresh handler cannot be read: {text[:200]!r}.") from cause
