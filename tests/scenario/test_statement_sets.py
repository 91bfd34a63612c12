"""Statement sets: nothing runs before END, then everything runs in order as one job."""

from __future__ import annotations

import pytest

from mt_core.errors import QueryFailed
from mt_core.sessions.ports import StatementResult
from tests.support.gateway.own_process import wait_until
from tests.support.gateway.statements import Gateway, root_cause

A, B = "INSERT INTO a SELECT 1", "CREATE TABLE b AS SELECT 1"
DONE = StatementResult(is_query=False, rows=None)


@pytest.fixture
def session(gateway: Gateway) -> str:
    gateway.engine.answers |= {A: DONE, B: DONE, f"-- second\n{B}": DONE}
    return gateway.open()


def executed(gateway: Gateway) -> list[str]:
    return [sql for _, sql in gateway.engine.executed]


def test_a_set_runs_at_its_end_and_answers_the_job(gateway: Gateway, session: str) -> None:
    collected = [
        gateway.rows(session, text) for text in ("BEGIN STATEMENT SET;", f"{A};", f"-- second\n{B};")
    ]
    before = executed(gateway)

    body = gateway.run(session, "END;").json()

    assert (collected, before, executed(gateway)) == ([[["OK"]]] * 3, [], [A, f"-- second\n{B}"])
    assert [column["name"] for column in body["results"]["columns"]] == ["job id"]
    assert body["results"]["data"] == [{"kind": "INSERT", "fields": [body["jobID"]]}]
    assert (body["isQueryResult"], body["resultKind"]) == (False, "SUCCESS_WITH_CONTENT")


def test_a_set_can_be_one_statement(gateway: Gateway, session: str) -> None:
    body = gateway.run(session, f"EXECUTE STATEMENT SET BEGIN {A}; {B}; END;").json()

    assert executed(gateway) == [A, B]
    assert body["results"]["data"][0]["fields"] == [body["jobID"]]


def test_spark_gets_blanks_where_tables_have_hints(gateway: Gateway, session: str) -> None:
    hint = "/*+ OPTIONS('streaming' = 'false') */"
    hinted, blank = (
        f"INSERT INTO a SELECT 1 FROM t {hint} AS x",
        f"INSERT INTO a SELECT 1 FROM t {' ' * len(hint)} AS x",
    )
    gateway.engine.answers[blank] = DONE

    in_one = gateway.run(session, f"EXECUTE STATEMENT SET BEGIN {A}; {hinted}; END;").json()
    for text in ("BEGIN STATEMENT SET", hinted, "END"):
        gateway.run(session, text)

    assert "errors" not in in_one
    assert executed(gateway) == [A, blank, blank]


def test_a_hint_that_means_nothing_is_refused_before_anything_runs(gateway: Gateway, session: str) -> None:
    refused = gateway.run(
        session, f"EXECUTE STATEMENT SET BEGIN {A}; {A} FROM t /*+ OPTIONS('a'='b') */; END"
    )

    assert "Unsupported: Table t: option 'a' is not supported in OPTIONS" in root_cause(refused)
    assert executed(gateway) == []


@pytest.mark.parametrize(("counts", "affected"), [((2, 5), "7"), ((2, None), None)])
def test_a_set_has_written_the_rows_of_its_members_if_all_of_them_are_counted(
    gateway: Gateway, session: str, counts: tuple[int | None, ...], affected: str | None
) -> None:
    gateway.engine.answers |= {
        sql: StatementResult(is_query=False, rows=None, affected_rows=count)
        for sql, count in zip((A, B), counts, strict=True)
    }

    answer = gateway.run(session, f"EXECUTE STATEMENT SET BEGIN {A}; {B}; END")

    assert answer.headers.get("freshtable-affected-rows") == affected
    [job] = gateway.rows(session, f"DESCRIBE JOB '{answer.json()['jobID']}'")
    assert job[4] == "STATEMENT SET"
    assert job[10] == (None if affected is None else int(affected))


def test_an_empty_set_is_ok_and_runs_nothing(gateway: Gateway, session: str) -> None:
    gateway.run(session, "BEGIN STATEMENT SET")

    body = gateway.run(session, "END").json()

    assert (body["results"]["data"][0]["fields"], "jobID" in body, executed(gateway)) == (["OK"], False, [])


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["END"], "IllegalStatus: END: no statement set is open; begin one with BEGIN STATEMENT SET."),
        (
            ["BEGIN STATEMENT SET", "BEGIN STATEMENT SET"],
            "IllegalStatus: BEGIN STATEMENT SET: a statement set is open already; END it first.",
        ),
        (
            ["BEGIN STATEMENT SET", "SHOW TABLES"],
            (
                "Unsupported: A statement set may contain "
                "INSERT and CREATE TABLE … AS only, not SHOW TABLES; END the set first."
            ),
        ),
        (
            ["EXECUTE STATEMENT SET BEGIN SELECT 1; END"],
            (
                "Unsupported: A statement set may contain INSERT and CREATE TABLE … AS only, not "
                "SELECT; END the set first."
            ),
        ),
    ],
)
def test_what_does_not_belong_to_a_set_is_refused(
    gateway: Gateway, session: str, statements: list[str], message: str
) -> None:
    answers = [gateway.run(session, statement) for statement in statements]

    assert (root_cause(answers[-1]), executed(gateway)) == (message, [])


def test_a_refused_statement_leaves_the_set_open(gateway: Gateway, session: str) -> None:
    for statement in ("BEGIN STATEMENT SET", A, "SHOW TABLES", "END"):
        gateway.run(session, statement)

    assert executed(gateway) == [A]


def test_the_member_that_fails_is_named_and_those_after_it_do_not_run(gateway: Gateway, session: str) -> None:
    gateway.engine.answers[A] = QueryFailed("[TABLE_OR_VIEW_NOT_FOUND] a")

    answer = gateway.run(session, f"EXECUTE STATEMENT SET BEGIN {A}; {B}; END")

    assert root_cause(answer) == (
        "QueryFailed: Statement 1 of 2 of the statement set failed, those before it are done: "
        "[TABLE_OR_VIEW_NOT_FOUND] a"
    )
    assert executed(gateway) == [A]


def test_cancel_ends_a_set_between_its_members(gateway: Gateway, session: str) -> None:
    hold = gateway.engine.hold(A)
    operation = gateway.begin(session, f"EXECUTE STATEMENT SET BEGIN {A}; {B}; END")
    hold.wait_entered()

    gateway.http.post(f"{operation}/cancel")

    gateway.rows(session, "SELECT 1")
    assert (gateway.status(operation), executed(gateway)) == ("CANCELED", [A, "SELECT 1"])


def test_an_insert_answers_its_job_and_goes_on_when_its_session_is_closed(
    gateway: Gateway, session: str
) -> None:
    body = gateway.run(session, A).json()
    hold = gateway.engine.hold(A)
    gateway.begin(session, A)
    hold.wait_entered()

    gateway.http.delete(session)
    hold.release()

    assert body["results"]["data"] == [{"kind": "INSERT", "fields": [body["jobID"]]}]
    assert gateway.engine.canceled == []


def test_a_set_goes_on_where_it_began_when_its_session_is_closed(gateway: Gateway, session: str) -> None:
    gateway.run(session, "USE spark_catalog.default")
    first, second = gateway.engine.hold(A), gateway.engine.hold(B)
    gateway.begin(session, f"EXECUTE STATEMENT SET BEGIN {A}; {B}; END")
    first.wait_entered()

    gateway.http.delete(session)
    first.release()
    second.wait_entered()
    [*_, (context, _)] = gateway.engine.executed
    state = gateway.engine.session_state(context)
    second.release()

    assert (state.catalog, state.namespace) == ("spark_catalog", ("default",))
    wait_until(
        lambda: gateway.engine.session_state(context).catalog == "lake", "the session was not closed", 10
    )


def test_a_set_whose_operation_was_closed_ends_before_the_next_statement(
    gateway: Gateway, session: str
) -> None:
    hold = gateway.engine.hold(A)
    operation = gateway.begin(session, f"EXECUTE STATEMENT SET BEGIN {A}; {B}; END")
    hold.wait_entered()

    gateway.http.delete(f"{operation}/close")
    waiting = gateway.begin(session, "USE spark_catalog.default")
    hold.release()
    gateway.result(waiting)

    assert executed(gateway) == [A, B, "USE spark_catalog.default"]


def test_an_insert_that_waits_for_its_turn_ends_with_its_session(
    gateway: Gateway, session: str, caplog: pytest.LogCaptureFixture
) -> None:
    hold = gateway.engine.hold(A)
    gateway.begin(session, A)
    waiting = gateway.begin(session, B).rpartition("/")[2]
    hold.wait_entered()

    with caplog.at_level("WARNING"):
        gateway.http.delete(session)
    hold.release()
    other = gateway.open()
    wait_until(
        lambda: [row[2] for row in gateway.rows(other, "SHOW JOBS")] == ["FINISHED"],
        "the job did not end",
        10,
    )

    assert executed(gateway) == [A]
    assert f"operation {waiting} (CREATE_TABLE_AS) had not begun when its session was closed" in caplog.text


def test_a_session_goes_on_while_an_insert_runs_whose_operation_was_closed(
    gateway: Gateway, session: str
) -> None:
    hold = gateway.engine.hold(A)
    operation = gateway.begin(session, A)
    waiting = gateway.begin(session, "SELECT 1")
    hold.wait_entered()

    gateway.http.delete(f"{operation}/close")
    gateway.result(waiting)
    during = gateway.rows(session, "SELECT 1")
    running = [row[1:3] for row in gateway.rows(session, "SHOW JOBS")][:1]
    hold.release()

    assert during == [[1]]
    assert running == [["insert-a", "RUNNING"]]
    assert gateway.engine.canceled == []


def test_an_insert_that_is_waited_for_is_stopped_when_its_operation_is_closed(
    gateway: Gateway, session: str
) -> None:
    gateway.run(session, "SET 'table.dml-sync' = 'true'")
    hold = gateway.engine.hold(A)
    operation = gateway.begin(session, A)
    hold.wait_entered()

    gateway.http.delete(f"{operation}/close")

    assert gateway.rows(session, "SELECT 1") == [[1]]
    assert [row[1:3] for row in gateway.rows(session, "SHOW JOBS")][:1] == [["insert-a", "CANCELED"]]
    assert len(gateway.engine.canceled) == 1
