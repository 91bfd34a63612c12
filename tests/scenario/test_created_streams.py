"""CREATE and REPLACE TABLE … AS in streaming mode: the table appears with the first batch of the job, or not
at all.
"""

from __future__ import annotations

import pytest

from mt_core.errors import EngineError, EngineUnavailable, GatewayError, MtError
from mt_core.model.stream import StopRequest
from mt_core.setup.status import Measure, statuses
from tests.support.fake_rows import FakeRows
from tests.support.gateway.whole import WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

STREAMING, BATCH = (f"SET 'execution.runtime-mode' = '{mode}'" for mode in ("streaming", "batch"))
CREATE = "CREATE TABLE copies AS SELECT * FROM flights"
REPLACE = "CREATE OR REPLACE TABLE copies AS SELECT * FROM flights"
COPIES = ("lake", "default", "copies")


def begin(whole: WholeGateway, statement: str = CREATE) -> str:
    """Start a job that creates a table, and return its id."""
    whole.statements.streams[statement] = FakeRows()
    whole.sql(STREAMING)
    [answer] = whole.sql(statement)
    whole.watch_streams()
    return str(answer["job id"])


def nothing_left(whole: WholeGateway) -> bool:
    return not whole.streams.created and not whole.streams.checkpoints and not whole.streams.running()


def test_a_table_appears_with_the_first_batch_of_its_job_and_grows(whole: WholeGateway) -> None:
    job_id = begin(whole)
    before = dict(whole.streams.created)

    whole.run_batch("x", "y")
    first = list(whole.streams.created[job_id])
    whole.run_batch("z")

    described = whole.job(job_id)
    assert (before, first, whole.streams.created[job_id]) == ({}, ["x", "y"], ["x", "y", "z"])
    assert (described["kind"], described["status"]) == ("CREATE TABLE AS", "RUNNING")
    assert (described["affected rows"], described["target"]) == (3, "lake.default.copies")
    assert whole.statements.executed == []


def test_a_job_that_is_stopped_before_its_first_batch_leaves_nothing(whole: WholeGateway) -> None:
    job_id = begin(whole)

    whole.perform(f"STOP JOB '{job_id}'")

    assert (whole.job(job_id)["status"], nothing_left(whole)) == ("CANCELED", True)


def test_to_stop_a_job_whose_table_has_rows_is_refused_with_both_ways_out(whole: WholeGateway) -> None:
    job_id = begin(whole)
    whole.run_batch("x", "y")

    refusal = whole.refused(f"STOP JOB '{job_id}'")

    assert (
        f"Job {job_id} has created table lake.default.copies, which has 2 rows: "
        f"STOP JOB '{job_id}' WITH SAVEPOINT keeps the table, WITH DROP drops it."
    ) in refusal
    assert (whole.job(job_id)["status"], whole.streams.running()) == ("RUNNING", {job_id})


def test_a_savepoint_keeps_the_table(whole: WholeGateway) -> None:
    job_id = begin(whole)
    whole.run_batch("x")

    [answer] = whole.perform(f"STOP JOB '{job_id}' WITH SAVEPOINT")

    assert (whole.job(job_id)["status"], whole.streams.created) == ("FINISHED", {job_id: ["x"]})
    assert list(whole.streams.savepoints) == [answer["savepoint path"]]


def test_with_drop_the_table_goes_with_its_job(whole: WholeGateway) -> None:
    job_id = begin(whole)
    whole.run_batch("x")

    whole.perform(f"STOP JOB '{job_id}' WITH DROP")

    assert (whole.job(job_id)["status"], nothing_left(whole)) == ("CANCELED", True)


def test_a_job_without_a_table_yet_has_no_savepoint(whole: WholeGateway) -> None:
    job_id = begin(whole)

    refusal = whole.refused(f"STOP JOB '{job_id}' WITH SAVEPOINT")

    assert f"Job {job_id} has not created table lake.default.copies yet, and has nothing to save" in refusal
    assert whole.streams.savepoints == {}


def test_with_drop_is_refused_for_a_batch_job(whole: WholeGateway) -> None:
    whole.sql("SELECT 1")
    [listed] = whole.sql("SHOW JOBS")

    refusal = whole.refused(f"STOP JOB '{listed['job id']}' WITH DROP")

    assert (
        f"job {listed['job id']} is not a streaming job, and stopping it leaves no table; use STOP JOB"
        in refusal
    )


def test_with_drop_is_refused_for_a_job_that_creates_no_table(whole: WholeGateway) -> None:
    insert = "INSERT INTO arrivals SELECT * FROM flights"
    job_id = begin(whole, insert)

    refusal = whole.refused(f"STOP JOB '{job_id}' WITH DROP")

    assert f"STOP JOB … WITH DROP: job {job_id} creates no table; use STOP JOB '{job_id}'." in refusal
    assert whole.job(job_id)["status"] == "RUNNING"


def test_a_job_that_fails_for_good_before_its_first_batch_leaves_nothing(whole: WholeGateway) -> None:
    job_id = begin(whole)

    whole.streams.fail(job_id, "Snapshot 7 of flights replaced rows.", final=True)
    whole.watch_streams(2)

    failed = whole.job(job_id)
    assert (failed["status"], failed["error"]) == ("FAILED", "Snapshot 7 of flights replaced rows.")
    assert nothing_left(whole)


@pytest.mark.parametrize("statement", [CREATE, REPLACE])
def test_a_failure_never_drops_a_table_that_readers_have_seen(whole: WholeGateway, statement: str) -> None:
    whole.streams.others |= {COPIES} if statement == REPLACE else set()
    job_id = begin(whole, statement)
    whole.run_batch("x")

    whole.streams.fail(job_id, "Snapshot 7 of flights replaced rows.", final=True)
    whole.watch_streams(2)

    failed = whole.job(job_id)
    assert (failed["status"], whole.streams.created) == ("FAILED", {job_id: ["x"]})
    assert failed["error"] == (
        "Snapshot 7 of flights replaced rows. Table lake.default.copies stays, with 1 row; "
        "DROP TABLE lake.default.copies removes it."
    )


def test_a_gateway_on_another_machine_keeps_the_table_of_a_stream_and_goes_on_when_its_checkpoint_is_back(
    whole: WholeGateway,
) -> None:
    job_id = begin(whole)
    whole.run_batch("x", "y")
    lost = take_to_another_machine(whole)

    whole.watch_streams(40)
    suspended, kept = whole.job(job_id), list(whole.streams.created[job_id])
    found = statuses([whole.process.server.url], lambda _url: None, Measure(since=whole.clock.now()), 10.0)
    said = found[0].lines()[1:]
    whole.streams.checkpoints |= lost
    whole.watch_streams(40)
    whole.run_batch("z")

    [checkpoint] = lost
    assert (suspended["status"], suspended["error"]) == ("SUSPENDED", f"There is no checkpoint {checkpoint}.")
    [line, *others] = said
    assert (line, others) == (
        f"  job {suspended['job name']} (CREATE TABLE AS) is SUSPENDED: There is no checkpoint {checkpoint}; "
        f"DESCRIBE JOB '{job_id}'",
        [],
    )
    assert kept == ["x", "y"]
    assert (whole.job(job_id)["status"], whole.streams.created) == ("RUNNING", {job_id: ["x", "y", "z"]})


def test_a_job_without_its_checkpoint_can_be_stopped_and_its_table_stays(whole: WholeGateway) -> None:
    job_id = begin(whole)
    whole.run_batch("x")
    take_to_another_machine(whole)
    whole.watch_streams(2)

    refusal = whole.refused(f"STOP JOB '{job_id}' WITH SAVEPOINT")
    whole.perform(f"STOP JOB '{job_id}'")

    assert "has nothing to save: There is no checkpoint" in refusal
    assert (whole.job(job_id)["status"], whole.streams.created) == ("CANCELED", {job_id: ["x"]})
    assert whole.streams.savepoints == {}


def test_with_drop_the_table_of_a_job_without_its_checkpoint_goes_too(whole: WholeGateway) -> None:
    job_id = begin(whole)
    whole.run_batch("x")
    take_to_another_machine(whole)
    whole.watch_streams(2)

    whole.perform(f"STOP JOB '{job_id}' WITH DROP")

    assert (whole.job(job_id)["status"], nothing_left(whole)) == ("CANCELED", True)


def take_to_another_machine(whole: WholeGateway) -> dict[str, tuple[int, int]]:
    """Kill the gateway and start one on the same registry with another home; return the old checkpoints."""
    lost = dict(whole.streams.checkpoints)
    whole.streams.lose(available=True)
    whole.streams.checkpoints.clear()
    whole.kill()
    whole.start()
    return lost


def test_a_replacement_that_fails_before_its_first_batch_leaves_nothing(whole: WholeGateway) -> None:
    whole.streams.others.add(COPIES)
    job_id = begin(whole, REPLACE)

    whole.streams.fail(job_id, "gone", final=True)
    whole.watch_streams(2)

    assert (whole.job(job_id)["status"], nothing_left(whole)) == ("FAILED", True)


def test_a_failure_is_told_when_what_it_wrote_is_gone(whole: WholeGateway) -> None:
    job_id = begin(whole)
    whole.streams.fail(job_id, "gone", final=True)

    whole.streams.available = False
    whole.watch_streams(2)
    between = whole.job(job_id)["status"]
    whole.streams.available = True
    whole.watch_streams(3)

    assert between != "FAILED"
    assert (whole.job(job_id)["status"], nothing_left(whole)) == ("FAILED", True)


@pytest.mark.parametrize(
    "cause", [EngineError("the store does not answer"), EngineUnavailable("Spark is starting.")]
)
def test_a_failure_waits_for_the_store_and_keeps_its_reason(whole: WholeGateway, cause: MtError) -> None:
    job_id = begin(whole)

    def refuse() -> None:
        raise cause

    whole.streams.after_discard = refuse
    whole.streams.fail(job_id, "Snapshot 7 of flights replaced rows.", final=True)
    whole.watch_streams(3)
    between = whole.job(job_id)["status"]
    whole.streams.after_discard = lambda: None
    whole.watch_streams(2)

    failed = whole.job(job_id)
    assert between == "RUNNING"
    assert (failed["status"], failed["error"]) == ("FAILED", "Snapshot 7 of flights replaced rows.")
    assert nothing_left(whole)


def test_a_gateway_that_ends_between_the_removal_and_the_row_leaves_it_to_the_next(
    whole: WholeGateway,
) -> None:
    job_id = begin(whole)
    whole.run_batch("x")

    def end() -> None:
        whole.streams.after_discard = lambda: None
        raise OSError("killed")

    whole.streams.after_discard = end
    whole.owner.stop(job_id, StopRequest(drop=True))
    whole.watch_streams(2)
    whole.streams.lose(available=True)
    whole.kill()
    whole.start()
    whole.watch_streams(3)

    assert (whole.job(job_id)["status"], nothing_left(whole)) == ("CANCELED", True)


@pytest.mark.parametrize("rows", [[], ["x"]])
def test_a_job_of_a_killed_gateway_goes_on_in_the_next(whole: WholeGateway, rows: list[str]) -> None:
    job_id = begin(whole)
    whole.run_batch(*rows)

    whole.streams.lose(available=True)
    whole.kill()
    whole.start()
    whole.watch_streams()
    whole.run_batch("y")

    assert (whole.job(job_id)["status"], whole.streams.created) == ("RUNNING", {job_id: [*rows, "y"]})


@pytest.mark.parametrize(
    ("mode", "statement"), [(STREAMING, REPLACE), (BATCH, "CREATE TABLE copies AS SELECT 1")]
)
def test_one_job_at_a_time_creates_a_table(whole: WholeGateway, mode: str, statement: str) -> None:
    job_id = begin(whole)
    whole.statements.streams[REPLACE] = FakeRows()
    whole.sql(mode)

    refusal = whole.refused(statement)

    assert (
        f"Table lake.default.copies is being created by job {job_id}; wait for it, or STOP JOB '{job_id}'."
        in refusal
    )
    assert whole.statements.executed == []


def test_a_table_that_is_there_is_left_to_batch(whole: WholeGateway) -> None:
    whole.statements.published[COPIES] = "earlier"
    whole.statements.streams[CREATE] = FakeRows()
    whole.sql(STREAMING)

    refusal = whole.refused(CREATE)

    assert "PARSE_SYNTAX_ERROR" in refusal
    assert whole.streams.attempts == {}


def test_a_statement_that_waits_is_cancelled_and_its_table_with_rows_goes_on(whole: WholeGateway) -> None:
    whole.statements.streams[CREATE] = FakeRows()
    whole.sql(STREAMING)
    whole.sql("SET 'table.dml-sync' = 'true'")
    whole.streams.source.append("x")
    operation = whole.client.execute(CREATE)
    while not whole.streams.running():
        whole.watch_streams()
    whole.streams.run_batches()
    [job_id] = whole.streams.created

    whole.client.cancel(operation)
    whole.watch_streams(4)

    assert (whole.job(job_id)["status"], whole.streams.created) == ("RUNNING", {job_id: ["x"]})


def test_hints_are_found_in_the_translation_of_a_table_in_flinks_words(whole: WholeGateway) -> None:
    statement = (
        "CREATE TABLE copies WITH ('format-version' = '2') AS\n"
        "SELECT * FROM a /*+ OPTIONS('streaming'='false') */ JOIN b"
    )
    whole.sql(STREAMING)
    with pytest.raises(GatewayError):
        whole.sql(statement)

    [member] = whole.statements.analysed
    assert "TBLPROPERTIES" in member.text
    assert [member.text[hint.start : hint.stop] for hint in member.hints] == ["a"]
