"""Stores workflow definitions in memory, for tests of schedulers."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from datetime import datetime

from mt_core.errors import MtError
from mt_core.workflow.definitions import DefinitionStore, WorkflowDefinition


class MemoryDefinitionStore(DefinitionStore):
    """Stores each definition as JSON, as a registry does.

    Tests set `schedule_times` to the schedule times in the ledger, and `failure` to an error that every call
    raises.
    """

    def __init__(self) -> None:
        self.schedule_times: dict[str, datetime] = {}
        self.failure: MtError | None = None
        self.writes = 0
        self._lock = threading.Lock()
        self._bodies: dict[str, str] = {}

    def put(self, definition: WorkflowDefinition) -> None:
        body = json.dumps(definition.to_json())
        with self._lock:
            self._check()
            self.writes += 1
            self._bodies[definition.workflow_id] = body

    def get(self, workflow_id: str) -> WorkflowDefinition | None:
        with self._lock:
            self._check()
            body = self._bodies.get(workflow_id)
        return None if body is None else WorkflowDefinition.from_json(json.loads(body))

    def delete(self, workflow_id: str) -> None:
        with self._lock:
            self._check()
            self.writes += 1
            self._bodies.pop(workflow_id, None)

    def all(self) -> list[WorkflowDefinition]:
        with self._lock:
            self._check()
            bodies = [body for _, body in sorted(self._bodies.items())]
        return [WorkflowDefinition.from_json(json.loads(body)) for body in bodies]

    def latest_schedule_times(self) -> Mapping[str, datetime]:
        with self._lock:
            self._check()
            return dict(self.schedule_times)

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure
