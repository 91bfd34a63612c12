from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue

import pytest

from mt_core.client.pages import ResultPage
from mt_core.client.terminal.live_result import LiveResult, Shown
from mt_core.client.terminal.view import INTERVALS, View
from mt_core.errors import GatewayError, MtError
from mt_core.rowset import INT, STRING, Column

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
        "Q leave  arrows move  N/P page  G go to",
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

    assert lines[-1] == "x is no number of a page."


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
    searching = view.is_searching
    ended = press(view, key)

    assert (begun[-1], searching) == ("20000 rows have no bergen. Ctrl-C ends t", True)
    assert (ended[-1], view.is_searching, view.selected, view.has_left) == ("The search was ended.", False, 0, False)


def test_another_key_ends_a_search_and_does_what_it_is_for(make: Make) -> None:
    view = make(page(range(30_000)), most_rows=100_000)

    press(view, "/", *"bergen", "enter", "down")
    moved = view.is_searching, view.selected
    press(view, "/", "enter", "q")

    assert (moved, view.is_searching, view.has_left) == ((False, 1), False, True)


def test_a_search_goes_on_behind_the_rows_that_are_searched_at_once(make: Make) -> None:
    view = make(page(range(30_000)), most_rows=100_000)

    press(view, "/", *"29999", "enter")
    waits = view.refresh_s
    while view.is_searching:
        view.search_on()

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
        columns=columns, rows=[[letter * 25 for letter in "abcd"]], is_query=True, has_content=True, is_last=False
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
