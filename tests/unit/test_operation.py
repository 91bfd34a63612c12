from __future__ import annotations

from datetime import UTC, datetime
from itertools import product

import pytest

from mt_core.base.rowset import RowSet
from mt_core.errors import (
    Canceled,
    EngineError,
    IllegalStatus,
    MtError,
    QueryFailed,
    RequestInvalid,
    StatementTimedOut,
)
from mt_core.sessions.operations.operation import (
    TERMINAL,
    TRANSITIONS,
    Operation,
    OperationKind,
    OperationResult,
    OperationStatus,
    ResultKind,
    Work,
)
from mt_core.sessions.operations.result_pages import Page, ResultPages
from mt_core.sql.parser import ReadStatement
from tests.support.fake_rows import FakeRows

NOW = datetime(2026, 1, 2, tzinfo=UTC)
PATHS: dict[OperationStatus, tuple[OperationStatus, ...]] = {
    OperationStatus.INITIALIZED: (),
    OperationStatus.PENDING: (OperationStatus.PENDING,),
    OperationStatus.RUNNING: (OperationStatus.PENDING, OperationStatus.RUNNING),
    OperationStatus.FINISHED: (OperationStatus.PENDING, OperationStatus.RUNNING, OperationStatus.FINISHED),
    OperationStatus.CANCELED: (OperationStatus.CANCELED,),
    OperationStatus.CLOSED: (OperationStatus.CLOSED,),
    OperationStatus.ERROR: (OperationStatus.ERROR,),
    OperationStatus.TIMEOUT: (OperationStatus.TIMEOUT,),
}


def operation_in(status: OperationStatus) -> Operation:
    operation = Operation("o", ReadStatement("SELECT 1"), NOW)
    for step in PATHS[status]:
        operation.advance(step)
    return operation


def a_result(rows: FakeRows) -> OperationResult:
    return OperationResult(rows=rows, result_kind=ResultKind.SUCCESS_WITH_CONTENT)


@pytest.mark.parametrize(("before", "target"), list(product(OperationStatus, OperationStatus)))
def test_a_status_moves_as_the_table_says_and_a_refused_move_changes_nothing(
    before: OperationStatus, target: OperationStatus
) -> None:
    operation = operation_in(before)

    if target in TRANSITIONS[before]:
        operation.advance(target)

        assert operation.status is target
    else:
        with pytest.raises(IllegalStatus, match=f"Operation o is {before} and cannot become {target}"):
            operation.advance(target)

        assert operation.status is before


def test_the_table_of_moves_is_that_of_flink_but_for_queries_that_go_on_while_they_are_read() -> None:
    moves = {str(status): sorted(targets) for status, targets in TRANSITIONS.items()}

    assert moves == {
        "INITIALIZED": ["CANCELED", "CLOSED", "ERROR", "PENDING", "TIMEOUT"],
        "PENDING": ["CANCELED", "CLOSED", "ERROR", "RUNNING", "TIMEOUT"],
        "RUNNING": ["CANCELED", "CLOSED", "ERROR", "FINISHED", "TIMEOUT"],
        "FINISHED": ["CANCELED", "CLOSED", "TIMEOUT"],
        "CANCELED": ["CLOSED"],
        "TIMEOUT": ["CLOSED"],
        "ERROR": ["CLOSED"],
        "CLOSED": [],
    }
    assert sorted(TERMINAL) == ["CANCELED", "CLOSED", "ERROR", "FINISHED", "TIMEOUT"]


def test_a_result_that_comes_after_the_cancel_is_released() -> None:
    operation, rows = operation_in(OperationStatus.RUNNING), FakeRows()
    operation.cancel()

    operation.finish(a_result(rows))

    assert (operation.status, operation.result, rows.closed) == (OperationStatus.CANCELED, None, True)


def test_an_error_that_comes_after_the_cancel_is_ignored() -> None:
    operation = operation_in(OperationStatus.RUNNING)
    operation.cancel()

    operation.fail(QueryFailed("late"))

    assert (operation.status, operation.error) == (OperationStatus.CANCELED, None)


def test_work_does_not_begin_on_an_operation_that_was_cancelled() -> None:
    operation = operation_in(OperationStatus.CANCELED)

    with pytest.raises(Canceled, match="Operation o is CANCELED"):
        operation.begin(Work(kind=OperationKind.SPARK, message="running"))

    assert operation.work.kind is OperationKind.SESSION


def test_cancel_stops_the_work_and_a_second_cancel_is_refused() -> None:
    operation, stopped = operation_in(OperationStatus.RUNNING), list[str]()
    operation.begin(
        Work(kind=OperationKind.REFRESH, message="refreshing", stop=lambda: stopped.append("run"))
    )

    operation.cancel()
    with pytest.raises(IllegalStatus, match="is CANCELED and cannot become CANCELED"):
        operation.cancel()

    assert (operation.status, stopped) == (OperationStatus.CANCELED, ["run"])


@pytest.mark.parametrize(
    ("kind", "stopped_at_close"), [(OperationKind.SPARK, ["job"]), (OperationKind.REFRESH, [])]
)
def test_close_stops_a_query_but_never_a_refresh(kind: OperationKind, stopped_at_close: list[str]) -> None:
    operation, stopped = operation_in(OperationStatus.RUNNING), list[str]()
    operation.begin(Work(kind=kind, message="running", stop=lambda: stopped.append("job")))

    operation.close()
    operation.close()

    assert (operation.status, stopped) == (OperationStatus.CLOSED, stopped_at_close)


def test_close_releases_the_result() -> None:
    operation, rows = operation_in(OperationStatus.RUNNING), FakeRows()
    operation.finish(a_result(rows))

    operation.close()

    assert rows.closed
    with pytest.raises(IllegalStatus, match="Operation o is CLOSED: it has no result to fetch"):
        operation.fetch(0)


def test_wait_tells_whether_the_operation_has_ended() -> None:
    running, ended = operation_in(OperationStatus.RUNNING), operation_in(OperationStatus.FINISHED)

    assert (running.wait(0), ended.wait(0)) == (False, True)


def test_a_page_can_be_fetched_again_until_the_next_but_one() -> None:
    cursor = ResultPages(RowSet(columns=(), rows=[[1], [2], [3]]), page_size=2)

    pages = [cursor.fetch(token) for token in (0, 0, 1, 1, 2, 1, 2, 3)]

    first, second, end = (
        Page(rows=[[1], [2]], last=False),
        Page(rows=[[3]], last=False),
        Page(rows=[], last=True),
    )
    assert pages == [first, first, second, second, end, second, end, end]


@pytest.mark.parametrize(
    ("fetched", "token", "expected"), [([], 1, "0"), ([0], 5, "1 or 0"), ([0, 1], 0, "2 or 1")]
)
def test_a_token_out_of_turn_is_refused_naming_the_expected_ones(
    fetched: list[int], token: int, expected: str
) -> None:
    cursor = ResultPages(RowSet(columns=(), rows=[[1], [2], [3]]), page_size=2)
    for earlier in fetched:
        cursor.fetch(earlier)

    with pytest.raises(RequestInvalid, match=f"Expecting token to be {expected}, but found {token}"):
        cursor.fetch(token)


def finished(rows: FakeRows, stopped: list[str] | None = None) -> Operation:
    operation, done = operation_in(OperationStatus.RUNNING), stopped if stopped is not None else []
    operation.begin(Work(kind=OperationKind.SPARK, message="running", stop=lambda: done.append("job")))
    operation.finish(a_result(rows))
    return operation


def test_a_query_that_goes_on_while_its_rows_are_read_can_be_cancelled() -> None:
    rows = FakeRows([1])
    operation = finished(rows)

    operation.cancel()

    assert (operation.status, rows.stopped, rows.closed) == (OperationStatus.CANCELED, True, True)
    with pytest.raises(IllegalStatus, match="Operation o is CANCELED: it has no result to fetch"):
        operation.fetch(0)


def test_a_query_that_has_ended_cannot_be_cancelled_and_keeps_its_rows() -> None:
    rows = FakeRows([1])
    operation = finished(rows)
    rows.end()

    with pytest.raises(IllegalStatus, match="Operation o is FINISHED and cannot become CANCELED"):
        operation.cancel()

    assert (operation.fetch(0).rows, rows.closed) == ([[1]], False)


def test_a_query_that_goes_on_while_its_rows_are_read_can_be_late() -> None:
    rows, late = FakeRows([1]), StatementTimedOut("late")
    operation = finished(rows)

    operation.time_out(late)

    assert (operation.status, operation.error, rows.stopped, rows.closed) == (
        OperationStatus.TIMEOUT,
        late,
        True,
        True,
    )


def test_a_query_that_has_ended_is_not_late() -> None:
    rows = FakeRows([1])
    operation = finished(rows)
    rows.end()

    operation.time_out(StatementTimedOut("late"))

    assert (operation.status, operation.error, rows.closed) == (OperationStatus.FINISHED, None, False)


def test_a_page_that_is_not_there_yet_is_empty_and_the_next_token_goes_on_behind_it() -> None:
    rows = FakeRows([1], [2], [3])
    cursor = ResultPages(rows, page_size=2)

    first = [cursor.fetch(token) for token in (0, 1, 2, 2)]
    waited = cursor.wait(3, 0)
    rows.add([4], [5])
    rows.end()
    second = [cursor.fetch(token) for token in (2, 3, 4, 5)]

    empty = Page(rows=[], last=False)
    assert first == [Page(rows=[[1], [2]], last=False), Page(rows=[[3]], last=False), empty, empty]
    assert waited is False
    assert second == [
        empty,
        Page(rows=[[4], [5]], last=False),
        Page(rows=[], last=True),
        Page(rows=[], last=True),
    ]


def test_a_failure_is_told_again_and_again_behind_the_rows_that_came_before_it() -> None:
    rows, failure = FakeRows([1]), QueryFailed("[DIVIDE_BY_ZERO] Division by zero.")
    cursor = ResultPages(rows)
    rows.end(failure)

    found: list[Page | MtError] = []
    for token in (0, 1, 1, 0):
        try:
            found.append(cursor.fetch(token))
        except QueryFailed as error:
            found.append(error)

    assert found == [Page(rows=[[1]], last=False), failure, failure, Page(rows=[[1]], last=False)]


def test_rows_are_released_when_no_token_leads_to_them_any_more() -> None:
    rows = FakeRows(*([n] for n in range(6)))
    cursor = ResultPages(rows, page_size=2)

    released = []
    for token in (0, 1, 1, 2):
        cursor.fetch(token)
        released.append(rows.released)

    assert released == [0, 2, 2, 4]


def test_a_page_has_the_size_it_was_first_asked_for_with() -> None:
    cursor = ResultPages(RowSet(columns=(), rows=[[n] for n in range(6)]), page_size=2)

    sizes = [
        len(cursor.fetch(token, size).rows) for token, size in ((0, 3), (0, 1), (1, None), (2, 9), (3, 9))
    ]

    assert sizes == [3, 3, 2, 1, 0]


def test_a_closed_result_whose_rows_could_not_be_written_says_so() -> None:
    operation, rows = operation_in(OperationStatus.RUNNING), FakeRows()
    operation.finish(a_result(rows))
    rows.end(EngineError("Rows of the result cannot be written in /home: No space left on device"))

    operation.close()

    with pytest.raises(EngineError, match="No space left on device"):
        operation.fetch(0)


def test_a_closed_result_whose_query_was_still_running_has_nothing_to_fetch() -> None:
    operation, rows = operation_in(OperationStatus.RUNNING), FakeRows()
    operation.finish(a_result(rows))

    operation.close()

    with pytest.raises(IllegalStatus, match="is CLOSED: it has no result to fetch"):
        operation.fetch(0)
