from __future__ import annotations

from datetime import UTC, datetime
from itertools import product

import pytest

from mt_core.errors import Canceled, IllegalStatus, QueryFailed, RequestInvalid
from mt_core.rowset import INT, Column, RowSet
from mt_core.sessions.operation import (
    TERMINAL,
    TRANSITIONS,
    Operation,
    OperationKind,
    OperationResult,
    OperationStatus,
    ResultKind,
    Work,
)
from mt_core.sessions.paging import Cursor, Page

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


class ClosableRows:
    columns = (Column(name="a", type=INT),)

    def __init__(self) -> None:
        self.closed = False

    def page(self, start: int, size: int) -> list[list[int]]:
        return [[1]][start : start + size]

    def close(self) -> None:
        self.closed = True


def operation_in(status: OperationStatus) -> Operation:
    operation = Operation("o", "SELECT 1", NOW)
    for step in PATHS[status]:
        operation.advance(step)
    return operation


def a_result(rows: ClosableRows) -> OperationResult:
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


def test_the_table_of_moves_is_that_of_flink() -> None:
    moves = {str(status): sorted(targets) for status, targets in TRANSITIONS.items()}

    assert moves == {
        "INITIALIZED": ["CANCELED", "CLOSED", "ERROR", "PENDING", "TIMEOUT"],
        "PENDING": ["CANCELED", "CLOSED", "ERROR", "RUNNING", "TIMEOUT"],
        "RUNNING": ["CANCELED", "CLOSED", "ERROR", "FINISHED", "TIMEOUT"],
        "FINISHED": ["CLOSED"],
        "CANCELED": ["CLOSED"],
        "TIMEOUT": ["CLOSED"],
        "ERROR": ["CLOSED"],
        "CLOSED": [],
    }
    assert sorted(TERMINAL) == ["CANCELED", "CLOSED", "ERROR", "FINISHED", "TIMEOUT"]


def test_a_result_that_comes_after_the_cancel_is_released() -> None:
    operation, rows = operation_in(OperationStatus.RUNNING), ClosableRows()
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

    assert operation.kind is OperationKind.SESSION


def test_cancel_stops_the_work_and_a_second_cancel_is_refused() -> None:
    operation, stopped = operation_in(OperationStatus.RUNNING), list[str]()
    operation.begin(Work(kind=OperationKind.REFRESH, message="refreshing", stop=lambda: stopped.append("run")))

    operation.cancel()
    with pytest.raises(IllegalStatus, match="is CANCELED and cannot become CANCELED"):
        operation.cancel()

    assert (operation.status, stopped) == (OperationStatus.CANCELED, ["run"])


@pytest.mark.parametrize(("kind", "stopped_at_close"), [(OperationKind.SPARK, ["job"]), (OperationKind.REFRESH, [])])
def test_close_stops_a_query_but_never_a_refresh(kind: OperationKind, stopped_at_close: list[str]) -> None:
    operation, stopped = operation_in(OperationStatus.RUNNING), list[str]()
    operation.begin(Work(kind=kind, message="running", stop=lambda: stopped.append("job")))

    operation.close()
    operation.close()

    assert (operation.status, stopped) == (OperationStatus.CLOSED, stopped_at_close)


def test_close_releases_the_result() -> None:
    operation, rows = operation_in(OperationStatus.RUNNING), ClosableRows()
    operation.finish(a_result(rows))

    operation.close()

    assert rows.closed
    with pytest.raises(IllegalStatus, match="Operation o is CLOSED: it has no result to fetch"):
        operation.fetch(0)


def test_wait_tells_whether_the_operation_has_ended() -> None:
    running, ended = operation_in(OperationStatus.RUNNING), operation_in(OperationStatus.FINISHED)

    assert (running.wait(0), ended.wait(0)) == (False, True)


def test_a_page_can_be_fetched_again_until_the_next_but_one() -> None:
    cursor = Cursor(RowSet(columns=(), rows=[[1], [2], [3]]), page_size=2)

    pages = [cursor.fetch(token) for token in (0, 0, 1, 1, 2, 1, 2, 3)]

    first, second, end = (
        Page(rows=[[1], [2]], last=False),
        Page(rows=[[3]], last=False),
        Page(rows=[], last=True),
    )
    assert pages == [first, first, second, second, end, second, end, end]


@pytest.mark.parametrize(("fetched", "token", "expected"), [([], 1, "0"), ([0], 5, "1 or 0"), ([0, 1], 0, "2 or 1")])
def test_a_token_out_of_turn_is_refused_naming_the_expected_ones(fetched: list[int], token: int, expected: str) -> None:
    cursor = Cursor(RowSet(columns=(), rows=[[1], [2], [3]]), page_size=2)
    for earlier in fetched:
        cursor.fetch(earlier)

    with pytest.raises(RequestInvalid, match=f"Expecting token to be {expected}, but found {token}"):
        cursor.fetch(token)
