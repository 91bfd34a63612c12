from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from mt_core.base.rowset import INT, Column, RowKind
from mt_core.client.pages import ResultPage
from mt_core.errors import GatewayError, MtError
from mt_core.terminal.viewer.live_result import LiveResult, Shown, Snapshot

COLUMNS = (Column(name="n", type=INT),)
WAIT_S = 60.0


class Source:
    """Pages that the test gives; remembers how many were asked for."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self._given: SimpleQueue[ResultPage | MtError | None] = SimpleQueue()

    def give(self, *pages: ResultPage | MtError | None) -> None:
        for page in pages:
            self._given.put(page)

    def wait_asked(self, times: int) -> None:
        for _ in range(times):
            assert self.asked.acquire(timeout=WAIT_S)

    def pages(self) -> Iterator[ResultPage]:
        while True:
            self.asked.release()
            page = self._given.get(timeout=WAIT_S)
            if page is None:
                return
            if isinstance(page, MtError):
                raise page
            yield page


def page(*numbers: int, kinds: list[RowKind] | None = None) -> ResultPage:
    return ResultPage(
        columns=COLUMNS,
        rows=[[number] for number in numbers],
        is_query=True,
        has_content=True,
        kinds=kinds,
        is_last=False,
    )


def followed(source: Source, first: ResultPage, shown: Shown, most_rows: int = 1_000) -> LiveResult:
    result = LiveResult(first, source.pages(), shown, most_rows)
    result.read_on()
    return result


def ended(result: LiveResult) -> Snapshot:
    """Take snapshots until there are no more rows, and return the last one."""
    while not (taken := result.snapshot()).has_ended:
        result._thread.join(0.01)
    return taken


def all_rows(snapshot: Snapshot) -> list[list[str | None]]:
    return [list(row) for row in snapshot.read(0, snapshot.count)]


@pytest.fixture
def source() -> Iterator[Source]:
    made = Source()
    yield made
    made.give(None)


def test_the_first_page_is_there_at_once_and_others_as_they_come(source: Source) -> None:
    with followed(source, page(1, 2), Shown.FIRST) as result:
        at_first = result.snapshot()
        source.give(page(3), None)
        at_end = ended(result)

        assert (all_rows(at_first), at_first.has_ended) == ([["1"], ["2"]], False)
        assert (all_rows(at_end), at_end.has_ended, at_end.more) == ([["1"], ["2"], ["3"]], True, False)
        assert all_rows(at_first) == [["1"], ["2"]]


def test_of_a_result_that_ends_the_first_rows_are_read_and_no_page_after_them(source: Source) -> None:
    source.give(page(3, 4, 5), page(6))
    with followed(source, page(1, 2), Shown.FIRST, most_rows=4) as result:
        taken = ended(result)

    assert (taken.count, taken.more, taken.left_out) == (4, True, 0)
    assert source.asked.acquire(timeout=WAIT_S)
    assert not source.asked.acquire(blocking=False)


def test_of_a_result_without_end_the_last_rows_are_kept(source: Source) -> None:
    source.give(*(page(*range(start, start + 1_000)) for start in range(1_000, 5_000, 1_000)), None)
    with followed(source, page(*range(1_000)), Shown.LAST, most_rows=1_500) as result:
        taken = ended(result)

        assert (taken.count, taken.left_out) == (1_500, 3_500)
        assert all_rows(taken)[0] == ["3500"]


def test_a_snapshot_stays_while_it_is_looked_at_and_the_gateway_waits_after_as_many_rows_again(
    source: Source,
) -> None:
    with followed(source, page(*range(1_000)), Shown.LAST, most_rows=1_000) as result:
        looked_at = result.snapshot()
        source.wait_asked(1)
        source.give(page(*range(1_000, 2_000)), page(*range(2_000, 3_000)))
        # The page after the next one is asked for when the next one has found its place,
        # which it does not before a snapshot.
        source.wait_asked(1)
        before = all_rows(looked_at)
        held_up = source.asked.acquire(blocking=False)
        newer = result.snapshot()
        source.wait_asked(1)
        source.give(None)

        assert (before[0], before[-1], held_up) == (["0"], ["999"], False)
        assert (newer.left_out, all_rows(newer)[0]) == (1_000, ["1000"])


def test_changes_have_their_sign(source: Source) -> None:
    source.give(page(1, 2, kinds=[RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER]), None)
    with followed(source, page(1, kinds=[RowKind.INSERT]), Shown.CHANGES) as result:
        taken = ended(result)

        assert all_rows(taken) == [["+I", "1"], ["-U", "1"], ["+U", "2"]]
        assert [column.name for column in result.columns] == ["op", "n"]


def test_rows_stand_as_all_changes_left_them(source: Source) -> None:
    source.give(page(1, 2, kinds=[RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER]), None)
    with followed(source, page(1, 5, kinds=[RowKind.INSERT] * 2), Shown.STANDING) as result:
        at_first = result.snapshot()
        taken = ended(result)

        assert all_rows(taken) == [["5"], ["2"]]
        assert all_rows(at_first) in ([["1"], ["5"]], [["5"], ["2"]])
        assert taken.left_out == 0


def test_standing_rows_above_the_limit_are_left_out_and_changes_of_them_ignored(source: Source) -> None:
    source.give(page(1, kinds=[RowKind.DELETE]), page(2, kinds=[RowKind.DELETE]), None)
    with followed(source, page(1, 2, 3, kinds=[RowKind.INSERT] * 3), Shown.STANDING, most_rows=2) as result:
        taken = ended(result)

        assert (all_rows(taken), taken.left_out) == ([["3"]], 1)


def test_an_error_ends_the_rows_and_keeps_those_that_came(source: Source) -> None:
    source.give(page(2), GatewayError("The query failed."))
    with followed(source, page(1), Shown.LAST) as result:
        taken = ended(result)

        assert (all_rows(taken), str(taken.error), taken.has_ended) == (
            [["1"], ["2"]],
            "The query failed.",
            True,
        )


def test_a_page_that_comes_after_the_end_is_dropped(source: Source) -> None:
    result = LiveResult(page(1), source.pages(), Shown.FIRST, 2_000)
    result.close()

    assert not result._take(page(*range(3_000)))
    assert result.snapshot().count == 0


def test_rows_for_which_the_disk_has_no_room_end_the_result_with_an_error(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with followed(source, page(1), Shown.LAST, most_rows=10_000) as result:
        source.give(page(*range(2, 1_500)))
        taken = ended(result)
        rows = all_rows(taken)

    assert str(taken.error).startswith(f"The rows cannot be stored in {folder}: No such file or directory; ")
    assert (rows[0], rows[-1], len(rows)) == (["1"], ["1499"], 1_499)


def test_closing_does_not_wait_for_room(source: Source) -> None:
    result = followed(source, page(*range(10)), Shown.LAST, most_rows=5)
    source.give(page(1), page(2))
    source.wait_asked(1)

    result.close()

    assert not result._thread.is_alive()


def test_no_page_is_asked_for_before_the_first_one_is_shown(source: Source) -> None:
    result = LiveResult(page(1), source.pages(), Shown.FIRST, 1_000)

    taken = result.snapshot()
    rows = all_rows(taken)
    result.close()

    assert (rows, taken.has_ended, source.asked.acquire(blocking=False)) == ([["1"]], False, False)
