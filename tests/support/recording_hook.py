"""A job status hook that records its calls and fails on demand, and the plug-in that provides it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from mt_core.errors import RequestInvalid
from mt_core.jobs.hooks import JobStatusHook, hookimpl
from mt_core.model.job import Job


class RecordingHook(JobStatusHook):
    """Records each call with its event, job id and details.

    It then raises the planned exception in `failures`, if any.
    """

    identifier: ClassVar[str] = "recording"

    def __init__(self, *, awaited: bool = False, retries: int | None = None) -> None:
        self.calls: list[tuple[str, str, str]] = []
        self.failures: list[Exception] = []
        self.awaited, self.retries = awaited, retries  # type: ignore[misc]

    def body_of(self, properties: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the session's note. Raises RequestInvalid if the note is empty."""
        note = properties.get("job.hooks.recording.note", "none")
        if not note:
            raise RequestInvalid(
                "job.hooks.recording.note is empty; SET a text.", key="job.hooks.recording.note"
            )
        return {"note": note}

    def on_created(self, job: Job, body: Mapping[str, Any]) -> None:
        self._record("created", job, body["note"])

    def on_finished(self, job: Job, body: Mapping[str, Any]) -> None:
        self._record("finished", job, str(job.rows_written))

    def on_failed(self, job: Job, body: Mapping[str, Any], error: str) -> None:
        self._record("failed", job, error)

    def on_canceled(self, job: Job, body: Mapping[str, Any]) -> None:
        self._record("canceled", job, body["note"])

    def _record(self, event: str, job: Job, more: str) -> None:
        self.calls.append((event, job.job_id, more))
        if self.failures:
            raise self.failures.pop(0)


@hookimpl
def mt_job_status_hooks() -> list[type[JobStatusHook]]:
    """Return the hook, as a plug-in does."""
    return [RecordingHook]
