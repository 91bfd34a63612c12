from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from mt_core.errors import (
    Canceled,
    DefinitionInvalid,
    EngineError,
    EngineUnavailable,
    QueryFailed,
    RegistryError,
    RequestInvalid,
    TableBusy,
)
from mt_core.jobs.store import JobStore
from mt_core.model.job import JobEvent, JobHook
from mt_core.model.reservation import Atomicity, Reservation
from mt_core.model.table import Column
from mt_core.sessions.ports import SessionContext
from mt_core.sessions.statements.table_creations import TableCreationHook, TableCreations
from mt_core.sessions.statements.translation import in_spark
from mt_core.sql.flink.columns_of_query import select_list
from mt_core.sql.parser import ReadStatement
from mt_core.sql.statements import ColumnSpec
from mt_core.testing.fake_clock import FakeClock
from tests.support.fake_statements import NO_ROWS, FakeStatementEngine
from tests.support.memory_registry import MemoryRegistry
from tests.support.registry_facts import NOON, a_job

CONTEXT = SessionContext(session_id="session", properties={})
SQL = "CREATE TABLE t AS SELECT 1 AS a"
TABLE = ("lake", "default", "t")
A, B = Column(name="a", type="int"), Column(name="b", type="string")


def _store() -> JobStore:
    """Return a store with a running job."""
    clock = FakeClock(NOON)
    store = JobStore(MemoryRegistry(clock), owner="gateway", clock=clock)
    for job_id in ("job", "first", "second"):
        store.begin(a_job(job_id))
    return store


def _creations(engine: FakeStatementEngine, store: JobStore | None = None) -> TableCreations:
    return TableCreations(engine, store or _store(), engine_timeout_s=1.0)


# ---------------------------------------------------------------------------------------------------- columns


@pytest.mark.parametrize(
    ("columns", "items"),
    [
        pytest.param("b, a", "`b`, `a`", id="names alone give another order"),
        pytest.param("B, a", "`b` AS `B`, `a`", id="a name is written as the list has it"),
        pytest.param(
            "c DATE", "CAST(NULL AS date) AS `c`, `a`, `b`", id="a new column comes first and is NULL"
        ),
        pytest.param("a BIGINT", "CAST(`a` AS bigint) AS `a`, `b`", id="a type overrides that of the query"),
        pytest.param(
            "b STRING, c INT, a BIGINT",
            "CAST(NULL AS int) AS `c`, CAST(`a` AS bigint) AS `a`, CAST(`b` AS string) AS `b`",
            id="columns of the query keep its order",
        ),
    ],
)
def test_a_list_of_columns_and_a_query_give_the_columns_of_a_table(columns: str, items: str) -> None:
    engine = FakeStatementEngine()
    engine.columns_of_queries["SELECT 1 AS a, 'x' AS b"] = [A, B]

    [text] = in_spark(
        ReadStatement(f"CREATE TABLE t ({columns}) AS SELECT 1 AS a, 'x' AS b"), engine, CONTEXT
    )

    assert text.lower() == f"CREATE TABLE `t` AS SELECT {items} FROM (SELECT 1 AS a, 'x' AS b\n)".lower()


def test_names_that_are_not_those_of_the_query_are_refused() -> None:
    with pytest.raises(
        DefinitionInvalid, match=r"Table t: the list names a, c, but the columns of the query are a, b"
    ):
        select_list("t", [ColumnSpec(name="a"), ColumnSpec(name="c")], [A, B])


def test_a_type_that_the_query_does_not_give_is_refused() -> None:
    engine = FakeStatementEngine()
    engine.columns_of_queries["SELECT 'x' AS b"] = [B]

    with pytest.raises(DefinitionInvalid, match="Column b is declared"):
        in_spark(ReadStatement("CREATE TABLE t (b INT) AS SELECT 'x' AS b"), engine, CONTEXT)


def test_a_query_with_a_list_of_columns_is_analysed_at_its_line_and_column() -> None:
    engine = FakeStatementEngine()
    read = ReadStatement("CREATE TABLE t (a BIGINT)\nAS SELEKT")

    with pytest.raises(QueryFailed, match=r"near '\\n   SELEKT'"):
        in_spark(read, engine, CONTEXT)


def test_sparks_own_forms_are_left_to_spark() -> None:
    engine = FakeStatementEngine()
    texts = [
        "CREATE TABLE t USING parquet PARTITIONED BY (a) AS SELECT 1 AS a",
        "CREATE TABLE t PARTITIONED BY (a) TBLPROPERTIES ('k' = 'v') AS SELECT 1 AS a",
        "CREATE OR REPLACE TABLE t COMMENT 'c' AS SELECT 1 AS a",
    ]

    assert [in_spark(ReadStatement(text), engine, CONTEXT) for text in texts] == [(text,) for text in texts]


# ----------------------------------------------------------------------------------------------- reservations


def test_a_reservation_survives_its_json() -> None:
    reservation = Reservation(
        job_id="j", table=TABLE, atomicity=Atomicity.CLEANED_UP, folder="/w/t", made=("/w",), emptied=True
    )

    assert Reservation.from_json(json.loads(json.dumps(reservation.to_json()))) == reservation
    assert reservation.to_json()["version"] == 1


def test_the_reservation_is_stored_with_its_job_before_anything_is_written() -> None:
    store, engine = _store(), FakeStatementEngine({SQL: NO_ROWS})
    hold = engine.hold(SQL)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(_creations(engine, store).run, CONTEXT, SQL, "job")
        hold.wait_entered()
        job = store.get("job")
        hold.release()

    assert job is not None
    assert [(hook.name, hook.body["table"], hook.body["folder"]) for hook in job.hooks] == [
        ("table-creation", list(TABLE), "/lake/job")
    ]


def test_nothing_is_written_without_a_stored_reservation() -> None:
    class WithoutRegistry(JobStore):
        def attach(self, job_id: str, hook: JobHook) -> None:
            raise RegistryError("The registry is away.")

    clock, engine = FakeClock(NOON), FakeStatementEngine({SQL: NO_ROWS})
    store = WithoutRegistry(MemoryRegistry(clock), owner="gateway", clock=clock)

    with pytest.raises(RegistryError):
        _creations(engine, store).run(CONTEXT, SQL, "job")

    assert engine.executed == []
    assert engine.settled == []


@pytest.mark.parametrize("event", [JobEvent.FAILED, JobEvent.CANCELED])
def test_the_hook_removes_what_a_job_left_from_its_json_alone(event: JobEvent) -> None:
    engine = FakeStatementEngine()
    reservation = Reservation(job_id="job", table=TABLE, atomicity=Atomicity.ATOMIC, folder="/lake/job")
    hook, body = TableCreationHook(_creations(engine)), json.loads(json.dumps(reservation.to_json()))
    job = a_job("job")

    hook.on_created(job, body)
    hook.on_finished(job, body)
    before = list(engine.settled)
    if event is JobEvent.FAILED:
        hook.on_failed(job, body, "its gateway ended")
    else:
        hook.on_canceled(job, body)

    assert before == []
    assert engine.settled == [reservation]


def test_a_session_cannot_ask_for_the_hook_of_tables() -> None:
    with pytest.raises(RequestInvalid, match="table-creation is attached to CREATE TABLE AS"):
        TableCreationHook(_creations(FakeStatementEngine())).body_of({})


def test_the_hook_waits_while_another_job_works_on_the_table() -> None:
    engine = FakeStatementEngine({SQL: NO_ROWS})
    creations, hold = _creations(engine), engine.hold(SQL)
    lost = Reservation(job_id="lost", table=TABLE, atomicity=Atomicity.CLEANED_UP, folder="/files/t")

    with ThreadPoolExecutor(1) as pool:
        pool.submit(creations.run, CONTEXT, SQL, "job")
        hold.wait_entered()
        with pytest.raises(TableBusy, match="job job"):
            TableCreationHook(creations).on_failed(a_job("lost"), lost.to_json(), "its gateway ended")
        hold.release()

    assert engine.settled == []


def test_a_table_that_was_created_is_not_settled() -> None:
    engine = FakeStatementEngine({SQL: NO_ROWS})

    _creations(engine).run(CONTEXT, SQL, "job")

    assert engine.published == {TABLE: "job"}
    assert engine.settled == []


@pytest.mark.parametrize(
    "error", [QueryFailed("Division by zero."), Canceled("The statement was cancelled.")]
)
def test_what_a_failed_or_canceled_job_wrote_is_removed_before_its_statement_ends(error: Exception) -> None:
    engine = FakeStatementEngine({SQL: error})

    with pytest.raises(type(error), match=str(error)):
        _creations(engine).run(CONTEXT, SQL, "job")

    assert [each.job_id for each in engine.settled] == ["job"]


def test_what_a_lost_engine_left_is_removed_when_it_is_back() -> None:
    engine = FakeStatementEngine({SQL: EngineUnavailable("Spark went away.")})

    with pytest.raises(EngineUnavailable):
        _creations(engine).run(CONTEXT, SQL, "job")

    assert [each.job_id for each in engine.settled] == ["job"]


def test_the_error_of_a_query_is_not_hidden_by_one_of_the_storage() -> None:
    class WithoutStorage(FakeStatementEngine):
        def settle(self, reservation: Reservation) -> bool:
            raise EngineError("The storage does not answer.")

    with pytest.raises(QueryFailed, match="Division by zero"):
        _creations(WithoutStorage({SQL: QueryFailed("Division by zero.")})).run(CONTEXT, SQL, "job")


def test_a_table_whose_commit_arrived_although_its_job_lost_the_engine_is_created() -> None:
    engine = FakeStatementEngine({SQL: EngineUnavailable("Spark went away.")})
    engine.published[("lake", "default", "t")] = "job"
    replace = "CREATE OR REPLACE TABLE t AS SELECT 1 AS a"
    engine.answers[replace] = EngineUnavailable("Spark went away.")

    result = _creations(engine).run(CONTEXT, replace, "job")

    assert result == NO_ROWS


def test_a_second_job_for_one_table_is_refused_naming_the_first() -> None:
    engine = FakeStatementEngine({SQL: NO_ROWS})
    creations, hold = _creations(engine), engine.hold(SQL)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(creations.run, CONTEXT, SQL, "first")
        hold.wait_entered()
        with pytest.raises(TableBusy) as refusal:
            creations.run(CONTEXT, SQL, "second")
        hold.release()

    assert first.result() == NO_ROWS
    assert (
        str(refusal.value)
        == "Table lake.default.t is being created by job first; wait for it, or STOP JOB 'first'."
    )
    assert engine.published == {TABLE: "first"}
    assert engine.settled == []
