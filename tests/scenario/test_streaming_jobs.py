"""The life of streaming jobs, across sessions, gateways and engines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mt_core.errors import EngineError, TableBusy
from mt_core.model.job import JobStatus
from mt_core.model.stream import StreamState
from mt_core.model.table import TableIdentifier
from mt_core.tables.upkeep.registered import RegisteredTables
from tests.support.gateway.whole import DAILY, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway
from tests.support.registry_facts import a_job, a_stream

JOB = "a" * 32


def submit(whole: WholeGateway, job_id: str = JOB) -> None:
    """Store a streaming job that reads the materialized table `daily`, and start it."""
    definition = whole.streams.prepare(a_stream(checkpoint=f"memory:/c/{job_id}"), job_id)
    definition = replace(definition, reads=(("lake", "default", "daily"),))
    job = a_job(
        job_id,
        status=JobStatus.CREATED,
        started_at=whole.clock.now(),
        statement="INSERT INTO arrivals SELECT * FROM daily",
        checkpoint=definition.checkpoint,
        definition=definition,
        stream=StreamState(),
    )
    whole.owner.submit(job)
    whole.watch_streams()


def test_a_streaming_job_goes_on_over_sessions_and_gateways(whole: WholeGateway) -> None:
    whole.streams.source += ["x", "y"]
    submit(whole)
    whole.run_batch()
    whole.expire_sessions()
    before = whole.job(JOB)

    whole.streams.lose(available=True)
    whole.kill()
    whole.start()
    between = whole.job(JOB)
    whole.streams.source.append("z")
    whole.watch_streams()
    whole.run_batch()
    after = whole.job(JOB)

    assert [each["status"] for each in (before, between, after)] == ["RUNNING", "RESTARTING", "RUNNING"]
    assert [each["restarts"] for each in (before, after)] == [0, 1]
    assert [each["affected rows"] for each in (before, after)] == [2, 3]
    assert [each["offsets"] for each in (before, after)] == ['{"rows": 2}', '{"rows": 3}']
    assert after["checkpoint"] == f"memory:/c/{JOB}"
    assert after["statement"] == "INSERT INTO arrivals SELECT * FROM daily"
    assert whole.streams.sink == ["x", "y", "z"]
    whole.bury_zombies()


def test_a_job_whose_engine_fails_ten_restarts_long_has_failed_with_the_last_error(
    whole: WholeGateway,
) -> None:
    submit(whole)

    for number in range(11):
        whole.streams.fail(JOB, f"no space left on device {number}")
        whole.watch_streams(2)
        whole.tick(minutes=1)
        whole.watch_streams()

    job = whole.job(JOB)
    assert (job["status"], job["restarts"]) == ("FAILED", 10)
    assert job["error"] == "no space left on device 10 (after 10 restarts without a batch)"


def test_a_job_is_stopped_from_another_session_and_has_ended_then(whole: WholeGateway) -> None:
    submit(whole)

    rows = whole.perform(f"STOP JOB '{JOB}'")

    assert rows == [{"result": "OK"}]
    assert whole.job(JOB)["status"] == "CANCELED"
    assert whole.streams.running() == set()
    assert "has ended and cannot be stopped any more" in whole.refused(f"STOP JOB '{JOB}'")


@pytest.mark.parametrize(("words", "rows"), [("", 0), (" WITH DRAIN", 1)])
def test_a_savepoint_is_answered_and_told_by_describe(whole: WholeGateway, words: str, rows: int) -> None:
    submit(whole)
    whole.streams.source.append("x")

    [answer] = whole.perform(f"STOP JOB '{JOB}' WITH SAVEPOINT{words}")

    path = answer["savepoint path"]
    assert path.startswith("memory:/s/savepoint-aaaaaa-")
    assert {path: (rows, rows)} == whole.streams.savepoints
    assert (whole.job(JOB)["status"], whole.job(JOB)["savepoint path"]) == ("FINISHED", path)


def test_a_savepoint_goes_to_the_folder_of_the_session(whole: WholeGateway) -> None:
    submit(whole)
    whole.sql("SET 'execution.checkpointing.savepoint-dir' = 's3://b/saved/'")

    [answer] = whole.perform(f"STOP JOB '{JOB}' WITH SAVEPOINT")

    assert answer["savepoint path"].startswith("s3://b/saved/savepoint-aaaaaa-")


def test_a_savepoint_that_fails_says_why_and_that_the_job_goes_on(whole: WholeGateway) -> None:
    submit(whole)

    def fail() -> None:
        raise EngineError("memory:/s is read-only")

    whole.streams.after_copy = fail
    with pytest.raises(
        Exception, match=r"Job a+ continues, because its savepoint failed: memory:/s is read-only"
    ):
        whole.perform(f"STOP JOB '{JOB}' WITH SAVEPOINT")

    whole.watch_streams(3)
    assert whole.job(JOB)["status"] == "RUNNING"


def test_a_batch_job_has_no_savepoint(whole: WholeGateway) -> None:
    whole.sql("SELECT 1")
    [job] = whole.sql("SHOW JOBS")

    refusal = whole.refused(f"STOP JOB '{job['job id']}' WITH SAVEPOINT")

    assert (
        f"job {job['job id']} is not a streaming job, and has no checkpoint; use STOP JOB '{job['job id']}'."
        in refusal
    )


def test_a_table_that_a_job_reads_or_writes_is_not_dropped_before_the_job_is_stopped(
    whole: WholeGateway,
) -> None:
    whole.sql(DAILY)
    whole.wait_quiet()
    submit(whole)
    before = whole.state()

    refusal = whole.refused("DROP MATERIALIZED TABLE daily")

    assert (
        f"DROP MATERIALIZED TABLE lake.default.daily: lake.default.daily is read by streaming job {JOB} "
        f"(insert-t); STOP JOB '{JOB}' first."
    ) in refusal
    assert whole.state() == before
    whole.perform(f"STOP JOB '{JOB}'")
    whole.sql("DROP MATERIALIZED TABLE daily")
    assert whole.sql("SHOW MATERIALIZED TABLES") == []


def test_a_directory_of_tables_refuses_what_would_take_a_table_or_its_namespace_from_a_job(
    whole: WholeGateway,
) -> None:
    submit(whole)
    tables = RegisteredTables(whole.process.registry)
    sink, other = (TableIdentifier("lake", ("default",), name) for name in ("arrivals", "other"))

    tables.check_no_stream([other], "DROP TABLE lake.default.other")
    tables.check_no_stream_within("lake", ("defaults",), "DROP NAMESPACE lake.defaults CASCADE")

    with pytest.raises(TableBusy, match=r"lake.default.arrivals is written by streaming job a+ "):
        tables.check_no_stream([other, sink], "DROP TABLE lake.default.arrivals")
    with pytest.raises(
        TableBusy, match=r"^DROP NAMESPACE lake.default CASCADE: lake.default.arrivals is written"
    ):
        tables.check_no_stream_within("lake", ("default",), "DROP NAMESPACE lake.default CASCADE")
