"""The contract of registries about jobs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mt_core.errors import RevisionConflict
from mt_core.model.job import Job, JobEvent, JobHook, JobStatus
from mt_core.model.stream import StopRequest, StreamState
from mt_core.tables.registry import Registry
from tests.support.registry_facts import HOUR, NOON, a_job, a_plan, a_stream


class JobsContract:
    """The contract for jobs."""

    def test_a_job_is_found_exactly_as_it_was_put(self, registry: Registry) -> None:
        hook = JobHook(
            name="webhook",
            body={"url": "https://h/ü'\"%", "parts": [1, {"a": None}]},
            done=(JobEvent.CREATED,),
            given_up=(JobEvent.FINISHED,),
            failures=3,
            retry_at=NOON + timedelta(microseconds=7),
            error="503",
        )
        job = a_job(
            statement="INSERT INTO t SELECT 'ü'", session="s", user="u", target="lake.sales.t", owner="o",
            hooks=(hook,), rows_read=1, rows_written=2**40, error="e", checkpoint="file:///c", restarts=2,
            status=JobStatus.FAILED, finished_at=NOON + HOUR, definition=a_stream(plan=a_plan()),
            stream=StreamState(
                batch=7, offsets="{}", states="[]", failures=2, start_at=NOON,
                stop=StopRequest(savepoint="s", drain=True, drop=True), savepoint="s", refused="r",
            ),
        )  # fmt: skip

        _insert(registry, job, a_job("plain"))

        with registry.transaction() as transaction:
            found = (
                transaction.jobs.get(job.job_id),
                transaction.jobs.get("plain"),
                transaction.jobs.get("none"),
            )
        assert found == (job, a_job("plain"), None)

    def test_a_taken_job_id_is_refused_and_the_transaction_goes_on(self, registry: Registry) -> None:
        with registry.transaction() as transaction:
            transaction.jobs.insert(a_job())
            with pytest.raises(RevisionConflict):
                transaction.jobs.insert(a_job(name="another"))
            transaction.jobs.insert(a_job("b"))

        with registry.transaction() as transaction:
            assert [job.name for job in transaction.jobs.open()] == ["insert-t", "insert-t"]

    def test_a_job_that_changed_meanwhile_is_not_replaced(self, registry: Registry) -> None:
        _insert(registry, a_job())

        with registry.transaction() as transaction:
            stored = transaction.jobs.replace(replace(a_job(), rows_written=1))
            for other in (a_job(), a_job("gone")):
                with pytest.raises(RevisionConflict):
                    transaction.jobs.replace(replace(other, rows_written=2))

        with registry.transaction() as transaction:
            assert stored == transaction.jobs.get("a") == a_job(rows_written=1, revision=1)

    def test_jobs_are_found_by_many_ids_at_once(self, registry: Registry) -> None:
        _insert(registry, a_job("c"), a_job("a"), a_job("b"))

        with registry.transaction() as transaction:
            assert [job.job_id for job in transaction.jobs.with_ids(["c", "a", "gone"])] == ["a", "c"]
            assert transaction.jobs.with_ids([]) == []

    def test_the_newest_jobs_before_a_place_are_those_that_started_earlier_or_have_a_smaller_id(
        self, registry: Registry
    ) -> None:
        started = [("a", NOON), ("b", NOON + HOUR), ("c", NOON + HOUR), ("d", NOON + HOUR)]
        _insert(registry, *(a_job(job_id, started_at=at) for job_id, at in started))

        with registry.reading() as reading:
            pages = [
                reading.jobs.newest(2, before=(at, job_id))
                for at, job_id in ((NOON + HOUR, "d"), (NOON + HOUR, "b"), (NOON, "a"))
            ]

        assert [[job.job_id for job in page] for page in pages] == [["c", "b"], ["a"], []]

    def test_the_newest_jobs_are_found_by_status(self, registry: Registry) -> None:
        failed = {"status": JobStatus.FAILED, "finished_at": NOON + HOUR}
        _insert(registry, a_job("a", **failed), a_job("b"), a_job("c", **failed), a_job("d", **failed))

        with registry.reading() as reading:
            first = reading.jobs.newest(2, statuses=[JobStatus.FAILED, JobStatus.CANCELED])
            second = reading.jobs.newest(2, before=(NOON, "c"), statuses=[JobStatus.FAILED])
            none = reading.jobs.newest(2, statuses=[])

        assert [[job.job_id for job in page] for page in (first, second, none)] == [["d", "c"], ["a"], []]

    def test_jobs_come_newest_first_and_open_ones_oldest_first(self, registry: Registry) -> None:
        ended = a_job("b", status=JobStatus.CANCELED, finished_at=NOON + HOUR)
        restarting = a_job("c", started_at=NOON + HOUR, status=JobStatus.RESTARTING)
        _insert(registry, restarting, ended, a_job("a"))

        with registry.transaction() as transaction:
            newest, opened = transaction.jobs.newest(2), transaction.jobs.open()

        assert [job.job_id for job in newest] == ["c", "b"]
        assert [job.job_id for job in opened] == ["a", "c"]

    def test_old_jobs_are_removed_but_for_open_ones_and_those_with_a_hook_to_call(
        self, registry: Registry
    ) -> None:
        done = JobHook(name="h", done=(JobEvent.CREATED, JobEvent.FINISHED))
        ended = {"status": JobStatus.FINISHED, "finished_at": NOON}
        due = a_job("due", hooks=(done, JobHook(name="g", done=(JobEvent.CREATED,))), **ended)
        new = a_job("new", status=JobStatus.FINISHED, finished_at=NOON + HOUR)
        _insert(
            registry, a_job("open"), due, new, a_job("done", hooks=(done,), **ended), a_job("old", **ended)
        )

        with registry.transaction() as transaction:
            with_hooks_due = transaction.jobs.with_hooks_due()
            removed = transaction.jobs.forget(NOON + HOUR)
            left = transaction.jobs.newest(10)

        assert with_hooks_due == [due]
        assert (removed, {job.job_id for job in left}) == (2, {"open", "due", "new"})

    def test_streams_are_the_open_jobs_with_a_definition_oldest_first(self, registry: Registry) -> None:
        ended = a_job("ended", status=JobStatus.CANCELED, finished_at=NOON, definition=a_stream())
        created = a_job("created", status=JobStatus.CREATED, started_at=NOON + HOUR, definition=a_stream())
        _insert(
            registry,
            created,
            a_job("stream", definition=a_stream(), stream=StreamState()),
            ended,
            a_job("batch"),
        )

        with registry.transaction() as transaction:
            streams = transaction.jobs.streams()
            opened = transaction.jobs.open()

        assert [job.job_id for job in streams] == ["stream", "created"]
        assert {job.job_id for job in opened} == {"stream", "created", "batch"}

    def test_a_stream_that_ended_is_removed_when_it_has_no_definition_any_more(
        self, registry: Registry
    ) -> None:
        ended = a_job("ended", status=JobStatus.CANCELED, finished_at=NOON, definition=a_stream())
        _insert(registry, ended, a_job("open", definition=a_stream()))

        with registry.transaction() as transaction:
            before = transaction.jobs.ended_streams(NOON)
            found = transaction.jobs.ended_streams(NOON + HOUR)
            removed = [transaction.jobs.forget(NOON + HOUR)]
            transaction.jobs.replace(replace(ended, definition=None))
            removed.append(transaction.jobs.forget(NOON + HOUR))
            left = transaction.jobs.newest(10)

        assert (before, found, removed) == ([], [ended], [0, 1])
        assert [job.job_id for job in left] == ["open"]


def _insert(registry: Registry, *jobs: Job) -> None:
    with registry.transaction() as transaction:
        for job in jobs:
            transaction.jobs.insert(job)
