"""Streaming jobs are counted by status; restarts, ends and the time of the last batch follow from events."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from mt_core.metrics.instruments import Instruments
from mt_core.metrics.streams import StreamCounters
from mt_core.model.job import Job, JobStatus
from mt_core.model.stream import StreamState
from mt_core.tables.events import JobChanged, StreamAdvanced
from mt_core.testing.fake_clock import FakeClock
from tests.support.registry_facts import NOON, a_job, a_stream
from tests.support.scrape import Scrape

JOBS, ENDED = "freshtable_stream_jobs", "freshtable_stream_jobs_ended_total"
RESTARTS, BATCH_AT = "freshtable_stream_restarts_total", "freshtable_stream_batch_timestamp_seconds"


class Counted:
    def __init__(self) -> None:
        self.clock, self._instruments = FakeClock(NOON), Instruments()
        self.hear = StreamCounters(self._instruments, self.clock)

    @property
    def scrape(self) -> Scrape:
        return Scrape.of_instruments(self._instruments.registry)

    def by_status(self, name: str) -> dict[str, float]:
        """Return the values that are not zero."""
        return {status: value for (status,), value in self.scrape.by(name, "status").items() if value}


def a_streaming_job(job_id: str = "a", **changes: Any) -> Job:
    return a_job(job_id, definition=a_stream(), **changes)


def test_every_status_is_shown_although_no_job_has_it() -> None:
    scrape = Counted().scrape

    open_and_ended = {*scrape.by(JOBS, "status"), *scrape.by(ENDED, "status")}
    assert open_and_ended == {(status.value,) for status in JobStatus}
    assert scrape.samples(BATCH_AT) == []


def test_a_job_is_counted_under_its_status_until_it_ends() -> None:
    counted, job = Counted(), a_streaming_job(status=JobStatus.CREATED)

    counted.hear(JobChanged(job=job))
    created = counted.by_status(JOBS)
    counted.hear(JobChanged(job=replace(job, status=JobStatus.RUNNING)))
    running = counted.by_status(JOBS)
    counted.hear(JobChanged(job=replace(job, status=JobStatus.FAILED)))

    assert (created, running) == ({"CREATED": 1}, {"RUNNING": 1})
    assert (counted.by_status(JOBS), counted.by_status(ENDED)) == ({}, {"FAILED": 1})


def test_a_job_without_a_stream_is_not_counted() -> None:
    counted = Counted()

    counted.hear(JobChanged(job=a_job()))
    counted.hear(JobChanged(job=a_job(status=JobStatus.FINISHED)))

    assert (counted.by_status(JOBS), counted.by_status(ENDED)) == ({}, {})


def test_jobs_of_an_earlier_gateway_are_counted_with_the_restarts_since() -> None:
    counted, job = Counted(), a_streaming_job(restarts=7)
    counted.hear.begin([job, a_streaming_job("b", status=JobStatus.SUSPENDED)])

    counted.hear(JobChanged(job=replace(job, status=JobStatus.RESTARTING, restarts=7)))
    counted.hear(JobChanged(job=replace(job, status=JobStatus.RUNNING, restarts=8)))
    counted.hear(StreamAdvanced(job=replace(job, status=JobStatus.RUNNING, restarts=10)))

    assert counted.by_status(JOBS) == {"RUNNING": 1, "SUSPENDED": 1}
    assert counted.scrape.total(RESTARTS) == 3


def test_only_another_batch_moves_the_time_of_the_last_batch() -> None:
    counted, job = Counted(), a_streaming_job(stream=StreamState(batch=3))
    counted.hear.begin([job])
    counted.hear(StreamAdvanced(job=replace(job, error="it failed")))
    before = counted.scrape.samples(BATCH_AT)

    counted.clock.advance(timedelta(seconds=30))
    counted.hear(StreamAdvanced(job=replace(job, stream=StreamState(batch=4))))
    counted.clock.advance(timedelta(seconds=30))
    counted.hear(StreamAdvanced(job=replace(job, stream=StreamState(batch=4), error="it failed")))

    assert before == []
    assert counted.scrape.total(BATCH_AT) == (NOON + timedelta(seconds=30)).timestamp()
