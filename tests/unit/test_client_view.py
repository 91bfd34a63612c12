from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from queue import SimpleQueue

import pytest
from pyarrow import parquet

from mt_core.base.rowset import INT, STRING, Column, LogicalType, RowKind
from mt_core.client.pages import ResultPage
from mt_core.errors import GatewayError, MtError
from mt_core.terminal.viewer.live_result import LiveResult, Shown
from mt_core.terminal.viewer.view import INTERVALS, View

WAIT_S = 60.0
COLUMNS = (Column(name="n", type=INT), Column(name="city", type=STRING))
CITIES = ("Rome", "Oslo", None)
WIDTH, HEIGHT = 40, 10
# Ten lines without those around the rows.
PAGE = 6
Make = Callable[..., View]


def page(numbers: Sequence[int]) -> ResultPage:
    rows = [[number, CITIES[number % 3]] for number in numbers]
    return ResultPage(columns=COLUMNS, rows=rows, is_query=True, has_content=True, is_last=False)


class Coming:
    """Pages to come."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[ResultPage | MtError | None] = SimpleQueue()

    def pages(self) -> Iterator[ResultPage]:
        while (page := self.queue.get(timeout=WAIT_S)) is not None:
            if isinstance(page, MtError):
                raise page
            yield page

    def end(self, view: View, *pages: ResultPage | MtError) -> None:
        """Let *pages* come, and then the end."""
        for each in (*pages, None):
            self.queue.put(each)
        view.result._thread.join(WAIT_S)


@pytest.fixture
def coming() -> Coming:
    return Coming()


@pytest.fixture
def make(coming: Coming) -> Iterator[Make]:
    made: list[LiveResult] = []

    def make_view(
        first: ResultPage, shown: Shown = Shown.FIRST, most_rows: int = 1_000, column_width: int = 30
    ) -> View:
        result = LiveResult(first, coming.pages(), shown, most_rows)
        result.read_on()
        made.append(result)
        return View(title="SELECT n, city", result=result, column_width=column_width)

    yield make_view
    coming.queue.put(None)
    for result in made:
        result.close()


def press(view: View, *keys: str) -> list[str]:
    """Press *keys*, each on a screen that was drawn, and return the screen after them."""
    for key in keys:
        view.lines(WIDTH, HEIGHT)
        view.press(key)
    return screen(view)


def screen(view: View) -> list[str]:
    return ["".join(text for _, text in line).rstrip() for line in view.lines(WIDTH, HEIGHT)]


def numbers(lines: Sequence[str]) -> list[int]:
    return [int(line.split()[0]) for line in lines[3:-1] if line]


def test_the_screen_has_names_rows_and_keys(make: Make, coming: Coming) -> None:
    view = make(page(range(3)))

    coming.end(view)
    view.refresh()

    assert screen(view) == [
        "row 1 of 3 | page 1 of 1 | all rows  SEL",
        "n  city",
        "─  ──────",
        "0  Rome",
        "1  Oslo",
        "2  <NULL>",
        "",
        "",
        "",
        "Q leave  arrows move  N/P page  / search",
    ]


@pytest.mark.parametrize(
    ("keys", "top", "selected"),
    [
        ((), 0, 0),
        (("down", "s", "S"), 0, 3),
        (("down",) * 7, 2, 7),
        (("down",) * 7 + ("up", "w"), 2, 5),
        (("n",), 6, 6),
        (("n", "pagedown", "p"), 6, 6),
        (("p", "up"), 0, 0),
        (("l",), 14, 19),
        (("end", "n", "n"), 19, 19),
        (("end", "home"), 0, 0),
        (("g", "2", "enter"), 6, 6),
        (("g", "9", "9", "enter"), 19, 19),
        (("g", "1", "3", "backspace", "backspace", "3", "enter"), 12, 12),
        (("g", "2", "escape"), 0, 0),
        (("z", "f1"), 0, 0),
    ],
)
def test_keys_move_over_rows_and_pages(make: Make, keys: Sequence[str], top: int, selected: int) -> None:
    view = make(page(range(20)))

    lines = press(view, *keys)

    assert (view.top, view.selected) == (top, selected)
    assert numbers(lines) == list(range(top, min(top + PAGE, 20)))


@pytest.mark.parametrize("key", ["q", "Q", "escape", "c-c"])
def test_a_person_leaves_with_any_of_the_keys_for_it(make: Make, key: str) -> None:
    view = make(page(range(3)))

    press(view, key)

    assert view.has_left


def test_what_is_no_page_is_named(make: Make) -> None:
    lines = press(make(page(range(3))), "g", "x", "enter")

    assert lines[-1] == "'x' is not a page number."


def test_a_search_finds_the_next_row_in_any_case_and_begins_again_after_the_last(make: Make) -> None:
    view = make(page(range(7)))

    found = [(press(view, "/", *text, "enter"), view.selected)[1] for text in ("ROME", "", "", "")]

    assert found == [3, 6, 0, 3]


def test_a_search_says_what_no_row_has_and_stays(make: Make) -> None:
    view = make(page(range(3)))

    asked = press(view, "/", "bergen")
    lines = press(view, "enter")

    assert (asked[-1], lines[-1], view.selected) == ("Search: bergen", "No row has bergen.", 0)


@pytest.mark.parametrize("key", ["c-c", "escape"])
def test_a_search_through_many_rows_is_ended_by_a_person_and_leaves_the_cursor_where_it_was(
    make: Make, key: str
) -> None:
    view = make(page(range(30_000)), most_rows=100_000)

    begun = press(view, "/", *"bergen", "enter")
    searching = view.is_working
    ended = press(view, key)

    assert (begun[-1], searching) == ("20000 rows have no bergen. Ctrl-C stops", True)
    assert (ended[-1], view.is_working, view.selected, view.has_left) == (
        "The search was stopped.",
        False,
        0,
        False,
    )


def test_another_key_ends_a_search_and_does_what_it_is_for(make: Make) -> None:
    view = make(page(range(30_000)), most_rows=100_000)

    press(view, "/", *"bergen", "enter", "down")
    moved = view.is_working, view.selected
    press(view, "/", "enter", "q")

    assert (moved, view.is_working, view.has_left) == ((False, 1), False, True)


def test_a_search_goes_on_behind_the_rows_that_are_searched_at_once(make: Make) -> None:
    view = make(page(range(30_000)), most_rows=100_000)

    press(view, "/", *"29999", "enter")
    waits = view.refresh_s
    while view.is_working:
        view.work_on()

    assert (waits, view.selected) == (None, 29_999)


def test_rows_of_a_result_without_end_are_followed_until_the_cursor_leaves_the_newest_one(
    make: Make, coming: Coming
) -> None:
    view = make(page(range(3)), Shown.LAST)
    before = view.selected
    coming.end(view, page(range(3, 30)))
    view.refresh()
    followed = view.selected, numbers(screen(view))
    press(view, "up")
    view.refresh()

    assert (before, followed) == (2, (29, list(range(24, 30))))
    assert view.selected == 28


def test_a_cursor_stays_on_its_row_when_older_ones_are_dropped(make: Make, coming: Coming) -> None:
    view = make(page(range(1_500)), Shown.LAST, most_rows=2_000)
    press(view, "up")
    coming.end(view, page(range(1_500, 2_600)))
    view.refresh()

    lines = screen(view)

    assert view.snapshot.left_out == 600
    assert lines[0].startswith("row 1499 of 2600 | page 150 of 334 | the")
    assert 1_498 in numbers(lines)


def test_the_interval_is_one_of_a_list_and_space_holds_the_rows(make: Make) -> None:
    view = make(page(range(3)), Shown.LAST)

    at_first = view.refresh_s
    press(view, "+")
    slower = view.refresh_s
    press(view, *["-"] * 9)
    fastest = view.refresh_s
    press(view, *["+"] * 9)
    never, told = view.refresh_s, screen(view)[0]
    press(view, "-", " ")
    paused, said = view.refresh_s, screen(view)[0]

    assert (at_first, slower, fastest, never, paused) == (1.0, 5.0, 0.05, None, None)
    assert [INTERVALS[0][0], "refresh -" in told, "paused" in said] == ["fastest", True, True]


@pytest.mark.parametrize("key", ["/", "g", "o"])
def test_rows_stay_while_a_person_looks_at_one_or_types(make: Make, key: str) -> None:
    view = make(page(range(3)), Shown.LAST)

    press(view, key)
    while_busy = view.refresh_s
    press(view, "escape")

    assert (while_busy, view.refresh_s, view.has_left) == (None, 1.0, False)


def test_a_result_that_has_more_rows_than_the_limit_says_so(make: Make, coming: Coming) -> None:
    view = make(page(range(3)), most_rows=5)

    coming.end(view, page(range(3, 9)))
    view.refresh()

    assert view.snapshot.count == 5
    assert screen(view)[0] == "row 1 of 5 | page 1 of 1 | the first 5 r"


def test_an_error_is_shown_below_the_rows_that_came(make: Make, coming: Coming) -> None:
    view = make(page(range(3)), Shown.LAST)

    coming.end(view, GatewayError("The query\nfailed."))
    view.refresh()

    assert (screen(view)[-1], numbers(screen(view))) == ("The query failed.", [0, 1, 2])


def test_a_row_is_opened_with_its_values_folded_and_scrolled(make: Make) -> None:
    columns = (Column(name="id", type=INT), Column(name="text", type=STRING))
    long = "x" * 100 + "\nsecond line\tafter a tab"
    first = ResultPage(columns=columns, rows=[[1, long * 3]], is_query=True, has_content=True, is_last=False)
    view = make(first)

    opened = press(view, "o")
    scrolled = press(view, *["down"] * 50)
    closed = press(view, "q")

    assert opened[:4] == ["row 1  SELECT n, city", "id    1", "text  " + "x" * 34, "      " + "x" * 34]
    assert (scrolled[-2], len(scrolled)) == ("      second line after a tab", HEIGHT)
    assert closed[3].startswith(" 1  xxx")
    assert not view.has_left


def test_columns_that_do_not_fit_are_cut_and_the_others_are_reached_aside(make: Make) -> None:
    columns = tuple(Column(name=f"c{number}", type=STRING) for number in range(4))
    first = ResultPage(
        columns=columns,
        rows=[[letter * 25 for letter in "abcd"]],
        is_query=True,
        has_content=True,
        is_last=False,
    )
    view = make(first, column_width=15)

    at_first = screen(view)
    between = press(view, "right")
    aside = press(view, "d")
    back = press(view, "right", "right", "left", "a", "a", "a", "a")

    assert at_first[0].startswith("row 1 of 1 | page 1 of 1 | columns 1-2 o")
    assert at_first[1:4] == [
        "c0               c1               c2   →",
        "───────────────  ───────────────  ──────",
        "aaaaaaaaaaaa...  bbbbbbbbbbbb...  cccccc",
    ]
    assert between[1:3] == [
        "← c1               c2               c3 →",
        "  ───────────────  ───────────────  ────",
    ]
    assert aside[0].startswith("row 1 of 1 | page 1 of 1 | columns 3-4 o")
    assert aside[1:4] == [
        "← c2               c3",
        "  ───────────────  ───────────────",
        "  cccccccccccc...  dddddddddddd...",
    ]
    assert back == at_first


def test_what_a_terminal_would_obey_is_shown_as_text(make: Make) -> None:
    columns = (Column(name="a\x1b[2J", type=STRING),)
    rows = [["one\ntwo\x1b[31m\x9b漢字"]]
    view = make(ResultPage(columns=columns, rows=rows, is_query=True, has_content=True, is_last=False))

    lines = screen(view)

    assert (lines[1], lines[3]) == (r"a\x1b[2J", r"one\ntwo\x1b[31m\x9b漢字")


def test_a_view_without_rows_takes_every_key(make: Make) -> None:
    view = make(page(()), Shown.LAST)

    lines = press(view, "down", "n", "l", "o", "/", "x", "enter", "g", "1", "enter", "right", "home")

    assert lines[0].startswith("row 0 of 0 | page 1 of 1 | refresh 1 s")


# --------------------------------------------------------------------------------------- rows that are chosen


def finish(view: View) -> list[str]:
    while view.is_working:
        view.work_on()
    return screen(view)


def values(view: View) -> list[str | None]:
    return [row[0] for row in view.snapshot.read(0, view.count, view.order)]


def of_type(root: str, *rows: object, **extras: int) -> ResultPage:
    columns = (Column(name="v", type=LogicalType(root=root, extras=extras)),)
    return ResultPage(
        columns=columns, rows=[[row] for row in rows], is_query=True, has_content=True, is_last=False
    )


@pytest.mark.parametrize(
    ("first", "ordered"),
    [
        (of_type("INTEGER", 10, None, 9, -1), [None, "-1", "9", "10"]),
        (
            of_type("DECIMAL", Decimal("10.10"), Decimal("9.2"), precision=38, scale=20),
            [f"{number}{'0' * 18}" for number in ("9.20", "10.10")],
        ),
        (of_type("DOUBLE", "NaN", 1e20, "-Infinity", 2.5), ["-Infinity", "2.5", "1.0E20", "NaN"]),
        (of_type("BOOLEAN", True, False), ["FALSE", "TRUE"]),
        (of_type("VARCHAR", "b", "B", "a10", "a9"), ["B", "a10", "a9", "b"]),
        (
            of_type(
                "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
                "2026-01-01T00:00:00.5Z",
                "2026-01-01T00:00:00Z",
                precision=3,
            ),
            ["2026-01-01 00:00:00.000", "2026-01-01 00:00:00.500"],
        ),
        (of_type("INTERVAL_YEAR_MONTH", 120, 2, -1), ["-0-01", "+0-02", "+10-00"]),
    ],
)
def test_rows_are_ordered_by_the_values_of_a_column_and_not_by_their_texts(
    make: Make, coming: Coming, first: ResultPage, ordered: list[str | None]
) -> None:
    view = make(first)

    press(view, "t", "v", "enter")
    ascending = values(view)
    press(view, "t", "-", "v", "enter")
    descending = values(view)
    press(view, "t", "enter")

    assert (ascending, descending) == (ordered, ordered[::-1])
    assert view.order is None


@pytest.mark.parametrize(
    ("name", "first"), [("n", "0"), ("-N", "2"), ("2", "2"), ("ci", "2"), ("-city", "0")]
)
def test_a_column_is_named_by_its_name_its_beginning_or_its_number(make: Make, name: str, first: str) -> None:
    view = make(page(range(3)))

    press(view, "t", *name, "enter")

    assert values(view)[0] == first


@pytest.mark.parametrize("name", ["x", "0", "3"])
def test_a_column_that_there_is_not_is_named_and_the_rows_stay(make: Make, name: str) -> None:
    view = make(page(range(3)))

    lines = press(view, "t", *name, "enter")

    assert lines[-1] == f"There is no column {name}; T takes a name, its beg"[:WIDTH]
    assert view.order is None


def test_rows_are_chosen_by_a_text_and_keep_their_order_and_all_keys_work_on_them(
    make: Make, coming: Coming
) -> None:
    view = make(page(range(9)))
    coming.end(view)
    view.refresh()

    press(view, "t", "-", "n", "enter")
    chosen = press(view, "f", *"ROME", "enter")
    found = (press(view, "/", "3", "enter"), view.selected)[1]
    opened = press(view, "o")
    press(view, "q")
    every = press(view, "f", "enter")

    assert numbers(chosen) == [6, 3, 0]
    assert view._status().startswith("row 1 of 9 | page 1 of 2 | by n, descending | all rows")
    assert (found, opened[:2]) == (1, ["row 2  SELECT n, city", "n     3"])
    assert numbers(every) == [8, 7, 6, 5, 4, 3]


def test_a_text_that_no_row_has_leaves_an_empty_view_that_says_the_way_out(make: Make) -> None:
    view = make(page(range(3)))

    lines = press(view, "f", *"bergen", "enter")
    after = press(view, "down", "o", "n", "c")

    assert (lines[-1], numbers(lines)) == ("No row has bergen; F and Enter show all", [])
    assert (after[0][:11], after[-1]) == ("row 0 of 0 ", "There are no rows to copy.")


def test_an_order_of_a_result_that_is_still_read_says_what_it_covers_and_covers_all_at_its_end(
    make: Make, coming: Coming
) -> None:
    view = make(page([5, 3]))

    press(view, "t", "n", "enter")
    before, waits = view._status(), view.refresh_s
    coming.end(view, page([4, 1]))
    looks_again = view.refresh_s
    view.refresh()

    assert before.startswith("row 1 of 2 | page 1 of 1 | by n, of 2 rows so far, R for more | refresh 1 s | ")
    assert (waits, looks_again) == (None, 1.0)
    assert view._status() == "row 1 of 4 | page 1 of 1 | by n | all rows"
    assert values(view) == ["1", "3", "4", "5"]


def test_an_order_of_the_first_rows_of_a_larger_result_says_so(make: Make, coming: Coming) -> None:
    view = make(page([5, 3]), most_rows=3)
    coming.end(view, page([4, 1]))
    view.refresh()

    press(view, "t", "n", "enter")

    assert view._status() == "row 1 of 3 | page 1 of 1 | by n | the first 3 rows of more"


def test_many_rows_are_ordered_between_keys_and_a_person_can_end_that(make: Make) -> None:
    view = make(page(range(30_000)), most_rows=100_000)

    begun = press(view, "t", "-", "n", "enter")
    ended = press(view, "c-c")
    stayed = values(view)[:2]
    press(view, "t", "-", "n", "enter")
    finish(view)

    assert begun[-1] == "20000 of 30000 rows are read. Ctrl-C stops."[:WIDTH]
    assert (ended[-1], stayed, view.has_left) == ("The rows are unchanged.", ["0", "1"], False)
    assert values(view)[:2] == ["29999", "29998"]
    assert numbers(press(view, "l"))[-1] == 0


@pytest.mark.parametrize("shown", [Shown.FIRST, Shown.LAST])
def test_a_key_while_more_rows_are_put_in_order_leaves_those_before_in_theirs(
    make: Make, coming: Coming, shown: Shown
) -> None:
    view = make(page(range(30_000)), shown, most_rows=30_500)
    press(view, "t", "-", "n", "enter")
    finish(view)
    coming.end(view, page(range(30_000, 31_000)))

    view.refresh()
    press(view, "down")
    before, told, again = values(view)[:2], view.notice, view.refresh_s
    view.refresh()
    finish(view)

    assert (before, told) == (["29999", "29998"], "The rows are unchanged; R adds the new ones.")
    assert (again, view.is_paused) == (1.0, False)
    assert values(view)[:2] == (["30499", "30498"] if shown is Shown.FIRST else ["30999", "30998"])


def test_an_order_of_more_rows_that_a_person_ends_does_not_begin_again_by_itself(
    make: Make, coming: Coming
) -> None:
    view = make(page(range(30_000)), most_rows=100_000)
    press(view, "f", "9", "enter")
    finish(view)
    coming.end(view, page(range(30_000, 31_000)))

    view.refresh()
    press(view, "escape")

    assert (view.refresh_s, view.has_left, values(view)[:2]) == (None, False, ["9", "19"])
    assert "| paused |" in view._status()


@pytest.mark.parametrize(("shown", "expected"), [(Shown.CHANGES, ["-U", "1"]), (Shown.STANDING, ["2"])])
def test_the_rows_of_a_changelog_are_chosen_too(make: Make, shown: Shown, expected: list[str]) -> None:
    kinds = [RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER]
    view = make(replace(page([1, 1, 2]), kinds=kinds), shown)

    press(view, "f", *("-u" if shown is Shown.CHANGES else "2"), "enter")

    assert [row[: len(expected)] for row in view.snapshot.read(0, view.count, view.order)] == [expected]


# ---------------------------------------------------------------------------------------- rows that are taken


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.csv", "n,city\n2,\n1,Oslo\n"),
        ("rows.TSV", "n\tcity\n2\t\\N\n1\tOslo\n"),
        ("rows.jsonl", '{"n": 2, "city": null}\n{"n": 1, "city": "Oslo"}\n'),
        ("rows.md", "| n | city |\n| ---: | --- |\n| 2 | &lt;NULL> |\n| 1 | Oslo |\n"),
    ],
)
def test_the_rows_that_are_looked_at_are_saved_in_the_form_that_the_file_is_named_for(
    make: Make, coming: Coming, tmp_path: Path, name: str, text: str
) -> None:
    view = make(page([1, 2]))
    coming.end(view)
    view.refresh()

    press(view, "t", "-", "n", "enter", "v", *str(tmp_path / name), "enter")
    finish(view)

    assert view.notice == f"2 rows in {tmp_path / name}"
    assert (tmp_path / name).read_text() == text


def moments(count: int) -> ResultPage:
    """Return rows whose file needs the time zone of the session."""
    moment = LogicalType(root="TIMESTAMP_WITH_LOCAL_TIME_ZONE", extras={"precision": 6})
    return ResultPage(
        columns=(Column(name="at", type=moment), Column(name="n", type=INT)),
        rows=[[f"2026-01-01T{number % 24:02}:00:00Z", number] for number in range(count)],
        is_query=True,
        has_content=True,
        is_last=False,
    )


def test_rows_are_saved_with_the_types_of_their_columns(make: Make, tmp_path: Path) -> None:
    view = make(moments(2_500), most_rows=10_000)
    view.properties = lambda: {"table.local-time-zone": "Asia/Tokyo"}

    press(view, "v", *str(tmp_path / "rows.parquet"), "enter")
    finish(view)

    table = parquet.read_table(tmp_path / "rows.parquet")
    assert [str(kind) for kind in table.schema.types] == ["timestamp[us, tz=UTC]", "int32"]
    assert table.column("n").to_pylist() == list(range(2_500))
    assert table.column("at")[9].as_py() == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("there.csv", "already exists; choose another name."),
        ("rows.xls", "has no known suffix; use one of .csv, .tsv, .json, .jsonl, .parquet, .arrow, .md."),
        ("no/such/rows.csv", "cannot be written: "),
        ("no/such/rows.arrow", "there is no folder "),
    ],
)
def test_a_file_that_cannot_be_written_is_named_and_the_view_goes_on(
    make: Make, tmp_path: Path, name: str, reason: str
) -> None:
    (tmp_path / "there.csv").write_text("before")
    view = make(page([1, 2]))

    press(view, "v", *str(tmp_path / name), "enter")
    finish(view)

    assert reason in view.notice
    assert sorted(each.name for each in tmp_path.iterdir()) == ["there.csv"]
    assert (tmp_path / "there.csv").read_text() == "before"


def hold_saving(view: View) -> tuple[threading.Event, threading.Event]:
    """Have a columnar file of *view* wait for the time zone; return what is set when it waits,
    and what lets it go on.
    """
    asked, answered = threading.Event(), threading.Event()

    def properties() -> dict[str, str]:
        asked.set()
        answered.wait(WAIT_S)
        return {}

    view.properties = properties
    return asked, answered


def test_saving_that_a_person_ends_leaves_no_file(make: Make, tmp_path: Path) -> None:
    view = make(moments(3_000), most_rows=100_000)
    asked, answered = hold_saving(view)
    press(view, "v", *str(tmp_path / "rows.parquet"), "enter")
    asked.wait(WAIT_S)
    answered.set()
    lines = press(view, "c-c")

    assert (lines[-1].startswith(str(tmp_path)[:20]), view.is_working, view.has_left) == (True, False, False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["~nobody-here/rows.csv", f"{'x' * 300}.csv", "a\0b.csv"])
def test_a_name_that_the_system_refuses_is_told_in_the_view(make: Make, name: str) -> None:
    view = make(page([1, 2]))

    view._save(name)

    assert view.notice.startswith(f"{name} cannot be written: ")


def test_a_key_on_a_file_that_has_just_been_written_says_that_it_is_there(make: Make, tmp_path: Path) -> None:
    view, path = make(moments(2)), tmp_path / "rows.parquet"
    _, answered = hold_saving(view)
    press(view, "v", *str(path), "enter")
    answered.set()
    deadline = time.monotonic() + WAIT_S
    while not path.exists() and time.monotonic() < deadline:
        os.sched_yield()

    press(view, "down")

    assert (view.is_working, view.notice) == (False, f"2 rows so far in {path}")


def test_rows_and_the_open_row_are_copied_as_lines_with_tabs(make: Make) -> None:
    view = make(page(range(3)))

    press(view, "t", "-", "n", "enter", "c")
    every, told = view.copied, view.notice
    press(view, "down", "o", "c")

    assert (every, told) == (b"n\tcity\n2\t\\N\n1\tOslo\n0\tRome\n", "3 rows copied.")
    assert (view.copied, view.notice) == (b"n\tcity\n1\tOslo\n", "1 row copied.")


def test_of_more_rows_than_a_clipboard_takes_the_first_ones_are_copied_whole(make: Make) -> None:
    columns = (Column(name="text", type=STRING),)
    rows = [["ü" * 500] for _ in range(100)]
    view = make(ResultPage(columns=columns, rows=rows, is_query=True, has_content=True, is_last=False))

    press(view, "c")

    assert view.copied is not None
    assert view.copied.decode().splitlines() == ["text", *["ü" * 500] * 74]
    assert view.notice == "The first 74 of 100 rows copied, as many as the clipboard takes; V saves all."


def test_a_row_that_no_clipboard_takes_leaves_the_clipboard_as_it_is(make: Make) -> None:
    columns = (Column(name="text", type=STRING),)
    view = make(
        ResultPage(columns=columns, rows=[["x" * 80_000]], is_query=True, has_content=True, is_last=False)
    )

    press(view, "c")

    assert (view.copied, view.notice) == (None, "The row is too large for the clipboard; V saves it.")


# --------------------------------------------------------------------------------------------- a sign of life


def test_a_view_says_since_when_it_has_been_starting_and_when_rows_came_last(
    make: Make, coming: Coming
) -> None:
    clock = [100.0]
    view = make(page(()), Shown.LAST)
    view.now, view.began = (lambda: clock[0]), 95.0
    screen(view)

    clock[0] += 32
    starting = view._status()
    coming.queue.put(page([1]))
    while not view.snapshot.came:
        view.refresh()
    clock[0] += 7
    waiting = view._status()
    coming.end(view)
    view.refresh()

    assert starting == "row 0 of 0 | page 1 of 1 | refresh 1 s | starting, 37 s"
    assert waiting == "row 1 of 1 | page 1 of 1 | refresh 1 s | 44 s, new rows 7 s ago"
    assert view._status() == "row 1 of 1 | page 1 of 1 | all rows"


def test_the_page_that_was_looked_at_is_printed_without_title_and_keys(make: Make) -> None:
    view = make(page(range(20)))

    lines = press(view, "n")

    assert view.printed() == lines[1:-1]
