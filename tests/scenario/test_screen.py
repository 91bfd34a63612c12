"""The screen that a user of `freshtable sql` sees, in a real pseudo terminal."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from mt_core.base.rowset import INT
from mt_core.errors import QueryFailed
from mt_core.model.table import Column
from tests.support.client_screen import PROGRAM, PROMPT, Open, at_prompt
from tests.support.gateway.statements import Gateway
from tests.support.terminal import CTRL_C, CTRL_D, TAB

pytestmark = pytest.mark.processes

ENOUGH, SOON_S = 10, 5.0
UP, LEFT, CTRL_R, CTRL_U, ESCAPE = "\x1b[A", "\x1b[D", "\x12", "\x15", "\x1b"
# Twenty keys that edit, search, complete, break off and run, ten times.
KEYS = [
    "S",
    "E",
    "L",
    LEFT,
    "x",
    "\x7f",
    "\x05",
    TAB,
    CTRL_U,
    "'",
    "\r",
    "\x1b[200~a;\x1b[201~",
    CTRL_C,
    CTRL_R,
    "S",
    CTRL_C,
    UP,
]
KEYS += [CTRL_C, "\x0c", ";"]


def test_statements_are_typed_over_lines_in_colours_with_their_brackets_and_run_at_their_semicolon(
    gateway: Gateway, opened: Open
) -> None:
    gateway.engine.answers["SELECT\n(1)"] = gateway.engine.answers["SELECT 1"]
    terminal = opened()

    terminal.type("SELECT\r")
    terminal.type("(1)")
    typed = terminal.see(lambda lines: lines[-1].endswith("(1)"))
    number = len(typed) - 2
    looks = [terminal.look(number, 12), *(terminal.look(number + 1, column) for column in (12, 13))]
    terminal.type(";\r")
    shown = terminal.see(lambda lines: at_prompt(lines) and "1 row" in lines)

    assert typed[number:] == ["freshtable> SELECT", "         -> (1)"]
    assert looks == [("S", "blue", True), ("(", "default", True), ("1", "magenta", False)]
    assert [line.strip(" │┃") for line in shown[number + 3 : number + 6]] == ["a", "┡━━━┩", "1"]


def test_the_colours_and_the_numbers_of_lines_are_those_of_the_session(opened: Open) -> None:
    terminal = opened()

    for count, (key, value) in enumerate(
        [("color-schema", "obsidian"), ("show-line-numbers", "true")], start=1
    ):
        terminal.type(f"SET 'sql-client.display.{key}' = '{value}';\r")
        terminal.see(lambda lines, count=count: at_prompt(lines) and lines.count("OK") == count)
    terminal.type("SELECT\r")
    terminal.type("1")
    typed = terminal.see(lambda lines: lines[-1].endswith(" 1"))
    number = len(typed) - 2

    assert typed[number:] == ["freshtable> SELECT", "          2 1"]
    # The nearest of the 256 colours of this terminal.
    assert [terminal.look(number, 12), terminal.look(number + 1, 12)] == [
        ("S", "87d75f", True),
        ("1", "ffd700", False),
    ]


def test_the_screen_is_cleared_and_the_history_is_in_the_file_that_was_asked_for(
    opened: Open, tmp_path: Path
) -> None:
    terminal = opened(str(PROGRAM), "sql", "--history", str(tmp_path / "typed"))

    terminal.type("CLEAR;\r")
    cleared = terminal.see(lambda lines: lines == [PROMPT])
    terminal.type(CTRL_D)
    code = terminal.wait_end()

    assert cleared == [PROMPT]
    assert (code, (tmp_path / "typed").read_text()) == (0, '"CLEAR;"\n')


def test_names_of_the_gateway_are_offered_while_a_person_types(gateway: Gateway, opened: Open) -> None:
    terminal = opened()

    terminal.type("SELECT * FROM d")
    offered = terminal.see(lambda lines: any("dull days" in line for line in lines))
    terminal.type("a")
    terminal.see(lambda lines: lines[-1].strip() == "daily" and lines[-2].endswith("FROM da"))
    terminal.type(TAB)
    chosen = terminal.see(lambda lines: any("FROM daily" in line for line in lines))

    assert [line.strip() for line in offered if line.startswith(" ")] == ["`dull days`", "daily"]
    assert any(line.startswith("freshtable> SELECT * FROM daily") for line in chosen)
    assert {sql for _, sql in gateway.engine.executed} == {"SHOW TABLES", "SHOW NAMESPACES"}


def test_up_goes_to_the_statement_before_while_words_are_offered_until_tab_has_chosen_one(
    opened: Open,
) -> None:
    terminal = opened()
    terminal.type("SELECT 1;\r")
    terminal.see(lambda lines: at_prompt(lines) and "1 row" in lines)

    terminal.type("q")
    terminal.see(lambda lines: any("QUALIFY" in line for line in lines))
    terminal.type(UP)
    recalled = terminal.see(lambda lines: lines[-1] == f"{PROMPT} SELECT 1;")
    terminal.type(CTRL_U + "S")
    terminal.see(lambda lines: any("SHOW" in line for line in lines))
    for _ in range(ENOUGH):
        # One that comes while the gateway's words are added to the list chooses none.
        terminal.type(TAB)
        with suppress(AssertionError):
            terminal.see(lambda lines: not any(line == f"{PROMPT} S" for line in lines), SOON_S)
            break
    terminal.type(UP)
    chosen = terminal.see(lambda lines: any(line == f"{PROMPT} S" for line in lines))

    assert not any("QUALIFY" in line for line in recalled)
    assert any("SHOW" in line for line in chosen)


def test_before_from_is_typed_the_columns_of_the_tables_read_last_are_offered(
    gateway: Gateway, opened: Open
) -> None:
    gateway.engine.answers["SELECT * FROM orders"] = gateway.engine.answers["SELECT 1"]
    gateway.engine.tables["orders"] = (Column(name="amount_paid", type=INT),)
    terminal = opened()
    for statement in ("SELECT * FROM orders", "SELECT 1"):
        terminal.type(f"{statement};\r")
        terminal.see(lambda lines, text=f"{PROMPT} {statement};": at_prompt(lines) and text in lines)

    terminal.type("SELECT amo")
    offered = terminal.see(lambda lines: lines[-1].strip() == "amount_paid")

    assert offered[-2] == f"{PROMPT} SELECT amo"


def test_a_gateway_that_is_slow_to_complete_holds_up_no_key_and_no_statement(
    gateway: Gateway, opened: Open
) -> None:
    terminal, hold = opened(), gateway.engine.hold("SHOW TABLES")

    terminal.type("SELECT * FROM d")
    hold.wait_entered()
    terminal.type("aily")
    typed = terminal.see(lambda lines: lines[-1].endswith("FROM daily"))
    terminal.type(CTRL_U + "SELECT 1;\r")
    ran = terminal.see(lambda lines: at_prompt(lines) and "1 row" in lines)
    hold.release()

    assert typed[-1] == "freshtable> SELECT * FROM daily"
    assert "freshtable> SELECT 1;" in ran


def test_an_error_shows_its_place_and_the_way_out_on_lines_of_their_own(
    gateway: Gateway, opened: Open
) -> None:
    text = "[UNRESOLVED_COLUMN] There is no column nope. Did you mean a?"
    gateway.engine.answers["SELECT nope"] = QueryFailed(text, line=1, position=8)
    terminal = opened()

    terminal.type("SELECT nope;\r")
    shown = terminal.see(lambda lines: at_prompt(lines) and any("Error" in line for line in lines))

    at = next(number for number, line in enumerate(shown) if "Error" in line)
    assert shown[at:] == [
        "Error: [UNRESOLVED_COLUMN] There is no column nope.",
        "  SELECT nope",
        "         ^^^^",
        "Did you mean a?",
        PROMPT,
    ]


def test_colours_are_left_out_where_no_one_wants_them(opened: Open) -> None:
    terminal = opened(NO_COLOR="1")

    terminal.type("SELECT ")
    typed = terminal.see(lambda lines: any(line.endswith("SELECT") for line in lines))

    number = next(number for number, line in enumerate(typed) if line.endswith("SELECT"))
    assert terminal.look(number, 12)[:2] == ("S", "default")


def test_a_dumb_terminal_has_plain_lines(gateway: Gateway, opened: Open) -> None:
    terminal = opened("sh", "-c", f"TERM=dumb {PROGRAM} sql --format csv")

    terminal.type("SELECT\r 1;\rSELECT 1;\r")
    terminal.see(lambda lines: at_prompt(lines) and "1" in lines)
    terminal.type(CTRL_D)

    assert terminal.wait_end() == 0
    assert "\x1b" not in terminal.raw


def test_rows_go_to_a_file_while_a_person_edits(opened: Open, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    terminal = opened("sh", "-c", f"{PROGRAM} sql --format csv > {file}")

    terminal.type("SELECT 1;\r")
    terminal.see(
        lambda lines: (
            at_prompt(lines) and any("SELECT 1;" in line for line in lines) and lines[-2].endswith(" s")
        )
    )
    terminal.type(CTRL_D)

    assert (terminal.wait_end(), file.read_text()) == (0, "a\n1\n")


def test_two_hundred_keystrokes_leave_the_terminal_as_it_was(opened: Open, tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    terminal = opened("sh", "-c", f"stty -a > {before}; {PROGRAM} sql; stty -a > {after}")

    for key in KEYS * 10:
        terminal.type(key)
    terminal.type(CTRL_C + "SELECT 1;\r")
    terminal.see(lambda lines: at_prompt(lines) and "1 row" in lines)
    terminal.type(CTRL_D)

    assert terminal.wait_end() == 0
    assert len(KEYS * 10) == 200
    assert after.read_text() == before.read_text()
    assert terminal.modes_left_on == set()
