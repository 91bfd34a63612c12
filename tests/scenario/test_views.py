"""Results that a user views on the whole screen of a real pseudo terminal."""

from __future__ import annotations

import re
from base64 import b64decode
from pathlib import Path

import pytest

from mt_core.base.rowset import INT, STRING, Column, RowKind, RowSet
from mt_core.errors import QueryFailed
from mt_core.sessions.ports import StatementResult
from mt_core.sql.statements import ShowMaterializedTables, ShowRefreshes
from mt_core.tables.table_commands import CommandOutcome
from tests.support.client_screen import PROGRAM, Open, at_prompt
from tests.support.fake_rows import FakeRows
from tests.support.gateway.statements import Gateway
from tests.support.screen import ScreenTerminal
from tests.support.terminal import COLUMNS, CTRL_C, CTRL_D, ROWS

pytestmark = pytest.mark.processes

MANY, LIVE = "SELECT many", "SELECT a FROM t"
STREAMING = "SET 'execution.runtime-mode' = 'streaming'"
LEAVE = [CTRL_C, "\x1b", "q"]


def numbered(count: int) -> StatementResult:
    """Return a result of that many rows."""
    columns = (Column(name="n", type=INT), Column(name="city", type=STRING))
    rows = [[number, None if number % 3 else "Rome"] for number in range(count)]
    return StatementResult(is_query=True, rows=RowSet(columns=columns, rows=rows))


@pytest.fixture
def many(gateway: Gateway) -> None:
    gateway.engine.answers[MANY] = numbered(12_000)


def in_view(lines: list[str]) -> bool:
    return lines[-1].startswith("Q leave")


def looked_at(terminal: ScreenTerminal, statement: str = MANY) -> list[str]:
    """Type a statement, and return the screen when its view is open."""
    terminal.type(f"{statement};\r")
    return terminal.see(in_view)


def runs(terminal: ScreenTerminal, statement: str) -> None:
    terminal.type(f"{statement};\r")
    terminal.see(lambda lines: at_prompt(lines) and "OK" in lines)


@pytest.mark.usefixtures("many")
def test_a_result_that_does_not_fit_the_screen_is_scrolled_searched_and_left(opened: Open) -> None:
    terminal = opened()

    first = looked_at(terminal)
    terminal.see(lambda lines: lines[0].startswith("row 1 of 12000 | page 1 of 261 | all rows"))
    terminal.type("n")
    second = terminal.see(lambda lines: lines[0].startswith("row 47 of 12000 | page 2 ") and "46" in lines[3])
    terminal.type("/11998\r")
    # The title comes before the rows below it.
    found = terminal.see(
        lambda lines: lines[0].startswith("row 11999 of") and lines[-2].split() == ["11998", "<NULL>"]
    )
    terminal.type("o")
    row = terminal.see(lambda lines: lines[0].startswith("row 11999  SELECT many"))
    terminal.type("q")
    terminal.see(in_view)
    terminal.type("q")
    left = terminal.see(at_prompt)

    assert first[1:5] == [" n  city", "──  ──────", " 0  Rome", " 1  <NULL>"]
    assert (len(first), max(map(len, first)) <= COLUMNS) == (ROWS, True)
    assert [second[3].split()[0], found[-2].split()] == ["46", ["11998", "<NULL>"]]
    assert row[1:3] == ["n     11998", "city  <NULL>"]
    assert left[-2] == "12000 rows"


@pytest.mark.slow
def test_a_list_that_does_not_fit_the_screen_is_scrolled_as_the_rows_of_a_query_are(
    gateway: Gateway, opened: Open
) -> None:
    tables = RowSet(
        columns=(Column(name="materialized table"),), rows=[[f"t{number}"] for number in range(100)]
    )
    refreshes = RowSet(columns=(Column(name="status"),), rows=[[f"s{number}"] for number in range(100)])
    gateway.commands.outcomes |= {
        ShowMaterializedTables: CommandOutcome(rows=tables),
        ShowRefreshes: CommandOutcome(rows=refreshes),
    }
    terminal = opened()

    listed = looked_at(terminal, "SHOW MATERIALIZED TABLES")
    terminal.type("q")
    left = terminal.see(at_prompt)
    runs(terminal, STREAMING)
    terminal.type("\\refreshes\r")
    ledger = terminal.see(lambda lines: in_view(lines) and "all rows" in lines[0])
    terminal.type("q")
    terminal.see(at_prompt)

    assert (listed[1].split(), listed[3].split()) == (["materialized", "table"], ["t0"])
    assert left[-2] == "100 rows"
    assert (ledger[0].split(" | ")[0], ledger[3].split()) == ("row 1 of 100", ["s0"])


@pytest.mark.slow
@pytest.mark.usefixtures("many")
def test_the_page_that_was_looked_at_stays_on_the_screen_after_the_view(opened: Open) -> None:
    terminal = opened()

    looked_at(terminal)
    terminal.see(lambda lines: "all rows" in lines[0])
    terminal.type("n")
    # All of it: the screen is written from its top.
    page = terminal.see(
        lambda lines: lines[0].startswith("row 47 of") and "46" in lines[3] and "91" in lines[-2]
    )
    terminal.type("q")
    left = terminal.see(at_prompt)

    # The prompt scrolls the screen for the words that it will offer.
    assert left[-32:-2] == page[-31:-1]


@pytest.mark.slow
@pytest.mark.usefixtures("many")
def test_rows_are_chosen_ordered_copied_and_saved(opened: Open, tmp_path: Path) -> None:
    terminal, file = opened(), tmp_path / "rows.csv"
    looked_at(terminal)
    terminal.see(lambda lines: "all rows" in lines[0])

    terminal.type("frome\r")
    terminal.see(lambda lines: " of 4000 | page 1 of 87 | with rome, of 12000 rows | all rows" in lines[0])
    terminal.type("t-n\r")
    ordered = terminal.see(
        lambda lines: (
            "with rome, by n, descending, of 12000 rows" in lines[0] and lines[3].split() != ["0", "Rome"]
        )
    )
    terminal.type("f11997\r")
    terminal.see(lambda lines: lines[0].startswith("row 1 of 1 |"))
    terminal.type("c")
    terminal.see(lambda lines: lines[-1] == "1 row copied.")
    terminal.type(f"v{file}\r")
    terminal.see(lambda lines: lines[-1] == f"1 row in {file}")
    terminal.type("q")
    terminal.see(at_prompt)

    [copied] = re.findall(r"\x1b\]52;c;([^\x07]*)\x07", terminal.raw)
    assert [line.split() for line in ordered[3:5]] == [["11997", "Rome"], ["11994", "Rome"]]
    assert b64decode(copied) == b"n\tcity\n11997\tRome\n"
    assert file.read_text() == "n,city\n11997,Rome\n"


@pytest.mark.slow
@pytest.mark.usefixtures("many")
def test_a_view_and_the_prompt_after_it_fit_a_window_that_a_person_makes_smaller_or_larger(
    opened: Open,
) -> None:
    terminal = opened()
    looked_at(terminal)

    terminal.resize(20, 60)
    small = terminal.see(lambda lines: len(lines) == 20 and in_view(lines) and " of 750 | " in lines[0])
    terminal.resize(30, 120)
    large = terminal.see(lambda lines: len(lines) == 30 and in_view(lines) and " of 462 | " in lines[0])
    terminal.type("q")
    terminal.see(at_prompt)
    terminal.resize(12, 40)
    runs(terminal, STREAMING)

    assert [lines[-2].split()[0] for lines in (small, large)] == ["15", "25"]


@pytest.mark.usefixtures("many")
def test_a_table_has_the_rows_that_its_property_allows_and_says_so(opened: Open) -> None:
    terminal = opened()
    runs(terminal, "SET 'sql-client.execution.max-table-result.rows' = '100'")

    looked_at(terminal)
    terminal.see(lambda lines: lines[0].startswith("row 1 of 100 | page 1 of 3 | the first 100 rows of more"))
    terminal.type("q")
    left = terminal.see(at_prompt)

    assert left[-2] == "100 rows were read; the query was cancelled."


def test_a_result_without_end_is_followed_held_and_cancelled(gateway: Gateway, opened: Open) -> None:
    rows = FakeRows([1], [2])
    gateway.engine.streams[LIVE] = rows
    terminal = opened()
    runs(terminal, STREAMING)

    looked_at(terminal, LIVE)
    rows.add([3])
    terminal.see(lambda lines: "3" in lines)
    terminal.type(" ")
    terminal.see(lambda lines: "paused" in lines[0])
    rows.add([4])
    rows.wait_until_read(4)
    terminal.type("w")
    held = terminal.see(lambda lines: lines[0].startswith("row 2 of"))
    terminal.type("r")
    shown = terminal.see(lambda lines: "4" in lines)
    terminal.type("q")
    left = terminal.see(at_prompt)

    assert (held[3:6], held[6]) == (["1", "2", "3"], "")
    assert shown[3:7] == ["1", "2", "3", "4"]
    assert (left[-2], rows.closed) == ("4 rows were read; the query was cancelled.", True)


def test_a_stream_says_since_when_it_has_been_waiting_before_its_first_row_and_after(
    gateway: Gateway, opened: Open
) -> None:
    rows = FakeRows()
    gateway.engine.streams[LIVE] = rows
    terminal = opened()
    runs(terminal, STREAMING)

    looked_at(terminal, LIVE)
    waiting = terminal.see(
        lambda lines: re.search(r"^row 0 of 0 .* starting, [0-9]+ s ", lines[0]) is not None
    )
    rows.add([3])
    terminal.see(lambda lines: re.search(r"row 1 of 1 .* s, new rows [0-9]+ s ago", lines[0]) is not None)
    terminal.type("q")
    left = terminal.see(at_prompt)

    assert waiting[3:-1] == [""] * (ROWS - 4)
    assert left[-5:-2] == ["a", "─", "3"]


def test_a_stream_that_is_printed_says_since_when_it_has_been_waiting(gateway: Gateway, opened: Open) -> None:
    rows = FakeRows()
    gateway.engine.streams[LIVE] = rows
    terminal = opened()
    runs(terminal, STREAMING)
    terminal.type("SET 'sql-client.execution.result-mode' = 'tableau';\r")
    terminal.see(lambda lines: at_prompt(lines) and lines.count("OK") == 2)

    terminal.type(f"{LIVE};\r")
    terminal.see(
        lambda lines: re.search(r"^starting .* 0 rows so far [0-9]+:[0-9]+:[0-9]+$", lines[-1]) is not None
    )
    rows.add([3])
    after = terminal.see(lambda lines: re.search(r"^waiting for rows .* 1 row so far", lines[-1]) is not None)
    rows.end()
    ended = terminal.see(at_prompt)

    assert [line.strip(" |") for line in after[-5:-1]][-1] == "3"
    assert not any("so far" in line for line in ended)


@pytest.mark.parametrize(
    ("mode", "expected"), [("table", ["5", "2"]), ("changelog", ["+I  1", "+I  5", "-U  1", "+U  2"])]
)
def test_a_result_that_changes_is_shown_as_it_stands_or_by_its_changes(
    gateway: Gateway, opened: Open, mode: str, expected: list[str]
) -> None:
    kinds = [RowKind.INSERT, RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER]
    gateway.engine.streams[LIVE] = FakeRows([1], [5], [1], [2], kinds=kinds)
    terminal = opened()
    runs(terminal, STREAMING)
    terminal.type(f"SET 'sql-client.execution.result-mode' = '{mode}';\r")
    terminal.see(lambda lines: at_prompt(lines) and lines.count("OK") == 2)

    looked_at(terminal, LIVE)
    shown = terminal.see(lambda lines: expected[-1].split()[-1] in lines[len(expected) + 2])

    assert [line.strip() for line in shown[3 : 3 + len(expected)]] == expected


@pytest.mark.slow
def test_a_query_that_fails_while_it_is_looked_at_is_an_error_when_it_is_left(
    gateway: Gateway, opened: Open
) -> None:
    rows = FakeRows([1])
    gateway.engine.streams[LIVE] = rows
    terminal = opened()
    runs(terminal, STREAMING)

    looked_at(terminal, LIVE)
    rows.end(QueryFailed("The disk is full."))
    terminal.see(lambda lines: lines[-1] == "The disk is full.")
    terminal.type("q")
    left = terminal.see(at_prompt)

    assert left[-2] == "Error: The disk is full."


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("key", LEAVE)
def test_the_terminal_is_as_it_was_when_a_view_is_left(opened: Open, tmp_path: Path, key: str) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    terminal = opened("sh", "-c", f"stty -a > {before}; {PROGRAM} sql; stty -a > {after}")

    looked_at(terminal)
    terminal.type("nnplo\x1b[A\x1b[B\x1b[C\x1b[D\x1b[5~\x1b[6~\x1b[H\x1b[F" + "q/x\rg3\r")
    terminal.type(key)
    terminal.see(at_prompt)
    terminal.type(CTRL_D)

    assert terminal.wait_end() == 0
    assert after.read_text() == before.read_text()
    assert terminal.modes_left_on == set()


def test_watching_prints_rows_and_ends_with_ctrl_c(gateway: Gateway, opened: Open) -> None:
    gateway.engine.answers[MANY] = numbered(500)
    terminal = opened()
    looked_at(terminal)
    terminal.type("q")
    terminal.see(at_prompt)

    terminal.type("\\watch 0.01\r")
    # The screen may move on between two looks at it; no view before has shown the last row.
    printed = terminal.see(lambda _lines: "499" in terminal.raw)
    terminal.type(CTRL_C)
    terminal.see(at_prompt)
    again = looked_at(terminal)

    assert (in_view(printed), in_view(again)) == (False, True)
