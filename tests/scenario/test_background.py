"""Statements that a user of `freshtable sql` interrupts, sends to the background and resumes, in a pseudo
terminal.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from mt_core.base.rowset import INT, Column, RowSet
from mt_core.model.progress import Progress
from mt_core.sessions.ports import StatementResult
from tests.support.client_screen import PROGRAM, Open, at_prompt
from tests.support.fake_rows import FakeRows
from tests.support.gateway.statements import Gateway
from tests.support.screen import ScreenTerminal
from tests.support.terminal import CTRL_C, CTRL_D, CTRL_Z, Terminal

pytestmark = pytest.mark.processes

LIVE = "SELECT a FROM t"
VIEW = "CREATE TEMPORARY VIEW v AS SELECT 1"


def entered(terminal: ScreenTerminal, line: str, shows: str) -> list[str]:
    """Type *line*; return the screen at the next prompt, once a line has the expected prefix."""
    terminal.type(f"{line}\r")
    return terminal.see(lambda lines: at_prompt(lines) and any(each.startswith(shows) for each in lines))


def test_ctrl_c_cancels_the_statement_and_the_session_goes_on(gateway: Gateway, opened: Open) -> None:
    terminal, hold = opened(), gateway.engine.hold("SELECT 1")
    entered(terminal, "SET a = 1;", "OK")

    terminal.type("SELECT 1;\r")
    hold.wait_entered()
    terminal.type(CTRL_C)
    terminal.see(lambda lines: at_prompt(lines) and lines[-2].endswith("Cancelled."))
    entered(terminal, "SELECT 1;", "1 row")

    assert hold.ended.is_set()
    assert [dict(context.properties) for context, sql in gateway.engine.executed if sql == "SELECT 1"][
        -1
    ] == {"a": "1"}


def test_ctrl_c_ends_a_script_with_130_and_cancels_its_statement(gateway: Gateway) -> None:
    hold = gateway.engine.hold("SELECT 1")
    command = [
        str(PROGRAM),
        "sql",
        "--gateway",
        str(gateway.http.base_url),
        "-e",
        "SELECT 1",
        "-e",
        "SET a = 1",
    ]

    with Terminal(command, os.environ) as terminal:
        hold.wait_entered()
        terminal.type(CTRL_C)
        code = terminal.wait_end()

    assert (code, hold.ended.is_set(), len(gateway.engine.canceled)) == (130, True, 1)
    assert "OK" not in terminal.shown


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_query_ends_with_its_client_when_the_terminal_is_closed_or_the_client_is_asked_to_end(
    gateway: Gateway, number: signal.Signals
) -> None:
    hold = gateway.engine.hold("SELECT 1")
    command = [str(PROGRAM), "sql", "--gateway", str(gateway.http.base_url), "-e", "SELECT 1"]

    with Terminal(command, os.environ) as terminal:
        hold.wait_entered()
        os.kill(terminal.pid, number)
        code = terminal.wait_end()

    assert (code, hold.ended.is_set(), len(gateway.sessions)) == (128 + number, True, 0)


def test_a_prompt_that_is_asked_to_end_closes_its_session(gateway: Gateway, opened: Open) -> None:
    terminal = opened()

    os.kill(terminal.pid, signal.SIGTERM)
    code = terminal.wait_end()

    assert (code, len(gateway.sessions)) == (128 + signal.SIGTERM, 0)


def test_ctrl_z_puts_a_statement_aside_and_those_after_it_until_they_are_taken_up_again(
    gateway: Gateway, opened: Open
) -> None:
    terminal, hold = opened(), gateway.engine.hold("SELECT 1")

    terminal.type("SELECT 1;\r")
    hold.wait_entered()
    terminal.type(CTRL_Z)
    aside = terminal.see(lambda lines: at_prompt(lines) and any("[1]" in line for line in lines))
    terminal.type("SHOW TABLES;\r")
    terminal.see(lambda lines: any("waiting for its turn" in line for line in lines))
    terminal.type(CTRL_Z)
    terminal.see(lambda lines: at_prompt(lines) and any("[2]" in line for line in lines))
    listed = entered(terminal, r"\jobs", "[2] RUNNING")
    hold.release()
    first = entered(terminal, r"\fg 1", "1 row")
    entered(terminal, r"\fg", "0 rows")
    none = entered(terminal, r"\jobs", "No statement")

    assert aside[-2].endswith(r"[1] continues in the background; \fg 1 shows it, \jobs lists all.")
    assert (listed[-3].startswith("[1] RUNNING"), listed[-3].endswith("s  SELECT 1")) == (True, True)
    assert [line.strip(" │┃") for line in first[-5:-3]] == ["1", "└───┘"]
    assert none[-2] == "No statement is in the background; Ctrl-Z puts one there while it runs."


def test_a_statement_that_runs_shows_its_tasks_and_the_rows_that_they_have_read(
    gateway: Gateway, opened: Open
) -> None:
    terminal, hold = opened(), gateway.engine.hold("SELECT 1")
    gateway.engine.tasks = Progress(done=3, total=8, rows_read=1_200_000)

    terminal.type("SELECT 1;\r")
    shown = terminal.see(lambda lines: "3 of 8 tasks, 1,200,000 rows read" in lines[-1])
    hold.release()
    ended = terminal.see(lambda lines: at_prompt(lines) and "1 row" in lines)

    assert shown[-1].startswith("running ")
    assert "tasks" not in "".join(ended)


def test_a_statement_says_how_many_rows_it_wrote_and_how_long_it_took(gateway: Gateway, opened: Open) -> None:
    insert = "INSERT INTO t SELECT 1"
    gateway.engine.answers[insert] = StatementResult(is_query=False, rows=None, affected_rows=7)
    terminal = opened()

    told = entered(terminal, f"{insert};", "7 rows written, ")[-2]
    untold = entered(terminal, r"\timing off", "The time of statements is not shown.")
    terminal.type(f"{insert};\r")
    again = terminal.see(lambda lines: at_prompt(lines) and lines[-2] == "7 rows written")

    assert told.endswith(" s")
    assert len(again) > len(untold)


def test_a_statement_whose_rows_are_being_printed_is_not_put_aside_and_prints_each_row_once(
    gateway: Gateway, opened: Open, tmp_path: Path
) -> None:
    rows, file = FakeRows([1]), tmp_path / "rows.csv"
    gateway.engine.streams[LIVE] = rows
    terminal = opened(
        str(PROGRAM), "sql", "--format", "csv", "-o", str(file), "-D", "execution.runtime-mode=streaming"
    )

    terminal.type(f"{LIVE};\r")
    rows.wait_until_read(1)
    terminal.type(CTRL_Z)
    told = terminal.see(lambda lines: any("printed" in line for line in lines))
    rows.add([2], [3])
    rows.wait_until_read(3)
    rows.end()
    terminal.see(lambda lines: at_prompt(lines) and len(lines) > len(told))
    entered(terminal, r"\jobs", "No statement")
    terminal.type(CTRL_D)

    assert terminal.wait_end() == 0
    assert told[-1].endswith("Its rows are being printed; Ctrl-C ends the statement.")
    assert file.read_text() == "a\n1\n2\n3\n"


def test_a_view_is_put_aside_and_taken_up_where_it_was(gateway: Gateway, opened: Open) -> None:
    rows = RowSet(columns=(Column(name="n", type=INT),), rows=[[number] for number in range(500)])
    gateway.engine.answers["SELECT many"] = StatementResult(is_query=True, rows=rows)
    terminal = opened()

    terminal.type("SELECT many;\r")
    terminal.see(lambda lines: lines[-1].startswith("Q leave"))
    terminal.type("nn")
    terminal.see(lambda lines: lines[0].startswith("row 93 of 500"))
    terminal.type(CTRL_Z)
    terminal.see(at_prompt)
    terminal.type("\\fg 1\r")
    again = terminal.see(lambda lines: "all rows" in lines[0])
    terminal.type("q")
    left = terminal.see(at_prompt)

    assert again[0].startswith("row 93 of 500 | page 3 of 11 | all rows")
    assert left[-2] == "500 rows"


def test_a_query_in_the_background_ends_with_the_session_and_that_is_said(
    gateway: Gateway, opened: Open
) -> None:
    rows = FakeRows([1])
    gateway.engine.streams[LIVE] = rows
    terminal = opened()
    entered(terminal, "SET 'execution.runtime-mode' = 'streaming';", "OK")

    terminal.type(f"{LIVE};\r")
    terminal.see(lambda lines: lines[-1].startswith("Q leave"))
    terminal.type(CTRL_Z)
    terminal.see(at_prompt)
    terminal.type(CTRL_D)
    code = terminal.wait_end()

    assert (code, rows.closed) == (0, True)
    assert terminal.shown.rstrip().endswith(
        "Statements in the background: queries stop with the session, changes of data continue; "
        "SHOW JOBS lists them."
    )


def test_a_statement_that_is_not_there_cannot_be_taken_up(opened: Open) -> None:
    terminal = opened()

    shown = entered(terminal, r"\fg 3", "Error")

    assert shown[-3:-1] == [
        "Error: No statement is in the background.",
        "Ctrl-Z puts one there while it runs.",
    ]


def test_a_gateway_that_was_restarted_is_met_again_with_what_is_gone(gateway: Gateway, opened: Open) -> None:
    gateway.engine.answers[VIEW] = StatementResult(is_query=False, rows=RowSet(columns=(), rows=[]))
    terminal = opened()
    entered(terminal, f"{VIEW};", "0 rows")
    gateway.sessions.close_all()

    lost = entered(terminal, "SELECT 1;", "Error: The session")
    met = entered(terminal, "SELECT 1;", "1 row")

    text = " ".join(" ".join(lost).split())
    assert (
        "Its changes are lost: CREATE TEMPORARY VIEW v. Run them again first. This statement was not run."
        in text
    )
    assert "Error" not in met[-2]


def test_a_session_that_was_opened_again_shows_rows_as_it_began(gateway: Gateway, opened: Open) -> None:
    terminal = opened()
    entered(terminal, "SET 'sql-client.execution.result-mode' = 'changelog';", "OK")
    gateway.sessions.close_all()
    entered(terminal, "SELECT 1;", "Error: The session")

    met = entered(terminal, "SELECT 1;", "1 row")

    assert "The result mode changelog" not in " ".join(met)
