"""Tests that every job status hook must pass. The hook's author subclasses `JobHookContract`.

    class TestMyHook(JobHookContract):
        @pytest.fixture
        def hook(self) -> JobStatusHook:
            return MyHook()

        def effects(self) -> object:
            return the effects of the hook so far, as a comparable value

Override the fixture `properties` with session properties that the hook accepts. New required tests are added
only in minor versions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from mt_core.jobs.hooks import JobStatusHook
from mt_core.model.job import Job, JobStatus

STARTED_AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


class JobHookContract:
    """The tests of a job status hook."""

    @pytest.fixture
    def properties(self) -> Mapping[str, str]:
        """Return the properties of the session."""
        return {}

    @pytest.fixture
    def job(self) -> Job:
        return Job(
            job_id="0f" * 16, kind="INSERT", name="insert-t", status=JobStatus.RUNNING, started_at=STARTED_AT
        )

    def effects(self) -> object:
        """Return the effects of the hook so far. The test of repeated calls compares them."""
        return None

    def test_what_is_stored_with_a_job_is_json(
        self, hook: JobStatusHook, properties: Mapping[str, str]
    ) -> None:
        body = hook.body_of(properties)

        assert json.loads(json.dumps(body)) == body

    def test_a_repeated_call_is_harmless_and_needs_only_what_was_stored(
        self, hook: JobStatusHook, properties: Mapping[str, str], job: Job
    ) -> None:
        body = json.loads(json.dumps(hook.body_of(properties)))
        failed = job.advance(JobStatus.FAILED, error="no rows", finished_at=STARTED_AT)

        hook.on_created(job, body)
        hook.on_failed(failed, body, "no rows")
        once = self.effects()
        hook.on_created(job, body)
        hook.on_failed(failed, body, "no rows")

        assert self.effects() == once

    def test_every_end_can_be_called(
        self, hook: JobStatusHook, properties: Mapping[str, str], job: Job
    ) -> None:
        body = hook.body_of(properties)

        hook.on_created(job, body)
        hook.on_finished(job.advance(JobStatus.FINISHED, rows_written=7, finished_at=STARTED_AT), body)
        hook.on_canceled(job.advance(JobStatus.CANCELED, finished_at=STARTED_AT), body)
