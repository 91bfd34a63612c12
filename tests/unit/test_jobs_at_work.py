from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from mt_core.spark.driver.jobs import ENDS_AFTER_S, RunningJobs


@pytest.fixture
def jobs() -> RunningJobs:
    return RunningJobs()


def test_a_job_that_no_other_ran_beside_was_alone(jobs: RunningJobs) -> None:
    with jobs.at_work("earlier"):
        pass
    with jobs.at_work("only"), jobs.at_work("only"):
        jobs.note_loss()

    assert jobs.alone()
    assert (jobs.had("only"), jobs.had("earlier")) == (True, False)


def test_each_of_several_jobs_shared_the_jvm_also_when_it_notices_the_loss_last(jobs: RunningJobs) -> None:
    with ThreadPoolExecutor(1) as other:
        block = jobs.at_work("other")
        other.submit(block.__enter__).result()
        with jobs.at_work("first"):
            jobs.note_loss()
            first = jobs.alone()
        last = other.submit(jobs.alone).result()
        other.submit(block.__exit__, None, None, None).result()

    assert (first, last) == (False, False)
    assert (jobs.had("first"), jobs.had("other")) == (True, True)


def test_what_is_in_no_job_is_alone_where_no_job_is(jobs: RunningJobs) -> None:
    idle, block = jobs.alone(), jobs.at_work("other")
    with ThreadPoolExecutor(1) as other:
        other.submit(block.__enter__).result()
        beside = jobs.alone()
        other.submit(block.__exit__, None, None, None).result()

    assert (idle, beside) == (True, False)


def test_a_job_that_took_the_memory_counts_after_its_end(jobs: RunningJobs) -> None:
    with ThreadPoolExecutor(1) as other, jobs.at_work("bystander"):

        def take_memory() -> None:
            with jobs.at_work("hungry"):
                jobs.note_out_of_memory()

        other.submit(take_memory).result()
        jobs.note_loss()

        assert not jobs.alone()
    assert jobs.had("hungry")


def test_a_job_whose_executor_had_no_memory_does_not_count_for_a_jvm_that_lives_on() -> None:
    now_s = 0.0
    jobs = RunningJobs(lambda: now_s)
    with ThreadPoolExecutor(1) as other:

        def take_memory() -> None:
            with jobs.at_work("hungry"):
                jobs.note_out_of_memory()

        for _ in range(3):
            other.submit(take_memory).result()
        with jobs.at_work("later"):
            now_s = ENDS_AFTER_S - 1
            at_first = jobs.alone()
            now_s = ENDS_AFTER_S
            jobs.note_loss()

            assert (at_first, jobs.alone()) == (False, True)
    assert (jobs.had("later"), jobs.had("hungry")) == (True, False)
