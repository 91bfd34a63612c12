from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from mt_core.errors import IllegalStatus
from mt_core.model.job import OPEN, TERMINAL, TRANSITIONS, JobEvent, JobHook, JobStatus
from tests.support.registry_facts import a_job


@pytest.mark.parametrize(("status", "target"), list(product(JobStatus, JobStatus)))
def test_a_job_moves_as_the_table_of_transitions_says_and_not_otherwise(
    status: JobStatus, target: JobStatus
) -> None:
    job = a_job(status=status)

    if target in TRANSITIONS[status]:
        assert job.advance(target, restarts=1) == replace(job, status=target, restarts=1)
    else:
        with pytest.raises(IllegalStatus, match=f"Job a is {status} and cannot become {target}"):
            job.advance(target)


def test_a_job_that_has_ended_stays_as_it_is() -> None:
    assert {JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED} == TERMINAL
    assert {JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING, JobStatus.SUSPENDED} == OPEN


@pytest.mark.parametrize(
    ("status", "done", "given_up", "following"),
    [
        (JobStatus.RUNNING, [], [], JobEvent.CREATED),
        (JobStatus.RUNNING, [JobEvent.CREATED], [], None),
        (JobStatus.FAILED, [], [], JobEvent.CREATED),
        (JobStatus.FAILED, [JobEvent.CREATED], [], JobEvent.FAILED),
        (JobStatus.CANCELED, [], [JobEvent.CREATED], JobEvent.CANCELED),
        (JobStatus.FINISHED, [JobEvent.CREATED], [JobEvent.FINISHED], None),
    ],
)
def test_a_hook_is_called_for_the_creation_first_and_then_for_the_end(
    status: JobStatus, done: list[JobEvent], given_up: list[JobEvent], following: JobEvent | None
) -> None:
    hook = JobHook(name="h", done=tuple(done), given_up=tuple(given_up))

    assert hook.next_event(status) is following
    assert a_job(status=status, hooks=(hook,)).hooks_due is (following is not None)
