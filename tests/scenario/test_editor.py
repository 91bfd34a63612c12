"""The editor of `freshtable sql`, driven by key presses; test_screen.py checks the screen."""

from __future__ import annotations

import io
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from mt_core.base.rowset import Column, RowSet
from mt_core.client.http import GatewayClient
from mt_core.errors import QueryFailed
from mt_core.model.table import TableIdentifier
from mt_core.sql.statements import DescribeTable, ShowLineage, ShowRefreshes
from mt_core.tables.runs.decide import SKIP
from mt_core.tables.table_commands import CommandOutcome
from mt_core.tables.views.lineage_rows import lineage_rows
from mt_core.tables.views.run_rows import run_rows
from mt_core.tables.views.run_view import RunView
from mt_core.terminal.editor.editor import Editor
from mt_core.terminal.output.form import Form
from mt_core.terminal.prompt.commands import run_command
from mt_core.terminal.prompt.prompt import Prompt
from mt_core.terminal.prompt.state import Keys, PromptState
from mt_core.terminal.script import Runner, Screen
from tests.support.gateway.statements import Gateway
from tests.support.gateway.whole import DAILY, EVERY_10_S, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway
from tests.support.registry_facts import NOON
from tests.support.table_facts import table_facts

ENTER, CTRL_D, CTRL_C, CTRL_R, CTRL_A, ESCAPE, UP = "\r", "\x04", "\x03", "\x12", "\x01", "\x1b", "\x1b[A"
Press = Callable[..., tuple[str, str]]


@pytest.fixture
def press(gateway: Gateway, tmp_path: Path) -> Iterator[Press]:
    """Press keys at a prompt until it ends; return the rows and the messages."""

    def pressed(
        *keys: str, environ: dict[str, str] | None = None, mode: Keys = Keys.EMACS
    ) -> tuple[str, str]:
        out, messages = io.StringIO(), io.StringIO()
        screen = Screen(out=out, messages=Console(file=messages, width=100), form=Form.CSV)
        with ExitStack() as stack:
            client = stack.enter_context(GatewayClient(str(gateway.http.base_url), exact=True))
            input_ = stack.enter_context(create_pipe_input())
            sitting = PromptState(
                runner=Runner(client, screen),
                environ={"XDG_STATE_HOME": str(tmp_path), **(environ or {})},
                keys=mode,
                wait=interrupt_third(),
            )
            editor = stack.enter_context(Editor(sitting, input=input_, output=DummyOutput()))
            input_.send_text("".join(keys) + CTRL_D)
            Prompt(sitting, editor).run()
        return out.getvalue(), messages.getvalue()

    return pressed


def interrupt_third() -> Callable[[float], None]:
    """Return a wait function that is interrupted at its third call."""
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            raise KeyboardInterrupt

    return wait


def executed(gateway: Gateway) -> list[str]:
    """Return the statements that ran for a user, without those that the editor sends to complete words."""
    return [sql for _, sql in gateway.engine.executed if sql != "SHOW SYSTEM FUNCTIONS"]


def answer(gateway: Gateway, *statements: str) -> None:
    for statement in statements:
        gateway.engine.answers[statement] = gateway.engine.answers["SELECT 1"]


def test_enter_runs_a_whole_statement_and_else_begins_a_line(gateway: Gateway, press: Press) -> None:
    answer(gateway, "SELECT ';\n'")

    out, messages = press("SELECT ';", ENTER, "';", ENTER)

    assert (out, executed(gateway)) == ("a\n1\n", ["SELECT ';\n'"])
    assert "Error" not in messages


def test_two_statements_of_one_line_both_run(gateway: Gateway, press: Press) -> None:
    out, _ = press("SELECT 1; SELECT 1;", ENTER)

    assert (out, executed(gateway)) == ("a\n1\n" * 2, ["SELECT 1"] * 2)


def test_the_history_goes_back_by_statement_also_in_the_next_client(
    gateway: Gateway, press: Press, tmp_path: Path
) -> None:
    answer(gateway, "SELECT 2", "SELECT 3")
    press("SELECT 2; SELECT 3;", ENTER)

    press(UP, UP, ENTER)

    assert executed(gateway) == ["SELECT 2", "SELECT 3", "SELECT 2"]
    assert stat.S_IMODE((tmp_path / "freshtable" / "sql_history").stat().st_mode) == 0o600


def test_ctrl_r_searches_the_history(gateway: Gateway, press: Press) -> None:
    answer(gateway, "SELECT 2", "SELECT 3")

    press("SELECT 2;", ENTER, "SELECT 3;", ENTER)

    press(CTRL_R, "t 2", ENTER, ENTER)

    assert executed(gateway) == ["SELECT 2", "SELECT 3", "SELECT 2"]


def test_ctrl_c_drops_what_is_typed(gateway: Gateway, press: Press) -> None:
    press("wrong", CTRL_C, "SELECT 1;", ENTER)

    assert executed(gateway) == ["SELECT 1"]


def test_keys_of_emacs_move(gateway: Gateway, press: Press) -> None:
    press("LECT 1;", CTRL_A, "SE", ENTER)

    assert executed(gateway) == ["SELECT 1"]


def test_keys_of_vi_come_with_set_or_from_the_start(gateway: Gateway, press: Press) -> None:
    press(r"\set editing-mode vi", ENTER, "SELECT 17;", ESCAPE, "hx", ENTER)
    press("SELECT 17;", ESCAPE, "hx", ENTER, mode=Keys.VI)

    assert executed(gateway) == ["SELECT 1", "SELECT 1"]


def test_other_keys_are_refused_and_nothing_changes(gateway: Gateway, press: Press) -> None:
    _, messages = press(r"\set editing-mode nano", ENTER, r"\set editing-mode", ENTER)

    assert "editing-mode: 'nano' cannot be used; expected emacs or vi." in messages
    assert "editing-mode = emacs" in messages
    assert executed(gateway) == []


@pytest.fixture
def editor_of_files(tmp_path: Path) -> dict[str, str]:
    """An external editor that replaces 7 by 1."""
    script = tmp_path / "editor.sh"
    script.write_text('#!/bin/sh\nsed -i s/7/1/ "$1"\n')
    script.chmod(0o700)
    return {"EDITOR": str(script)}


def test_e_edits_the_last_statement_and_runs_it(
    gateway: Gateway, press: Press, editor_of_files: dict[str, str]
) -> None:
    _, messages = press("SELECT 7;", ENTER, r"\e", ENTER, environ=editor_of_files)

    assert executed(gateway) == ["SELECT 7", "SELECT 1"]
    assert "SELECT 1;" in messages


def test_e_on_a_line_of_its_own_edits_what_is_typed_above(
    gateway: Gateway, press: Press, editor_of_files: dict[str, str]
) -> None:
    press("SELECT 7", ENTER, r"\e", ENTER, ";", ENTER, environ=editor_of_files)

    assert executed(gateway) == ["SELECT 1"]


def test_an_editor_that_fails_is_named(gateway: Gateway, press: Press) -> None:
    _, failed = press("SELECT 1;", ENTER, r"\e", ENTER, environ={"EDITOR": "false"})
    _, missing = press(r"\e", ENTER, environ={"VISUAL": "no-such-editor"})

    assert "The editor 'false' exited with 1; its text is discarded." in failed
    assert "The editor 'no-such-editor' cannot be used" in missing
    assert executed(gateway) == ["SELECT 1"]


def test_an_error_has_a_caret_under_the_token(gateway: Gateway, press: Press) -> None:
    text = "[UNRESOLVED_COLUMN] There is no column nope. Did you mean a?"
    gateway.engine.answers["SELECT a,\n nope"] = QueryFailed(text, line=2, position=2)

    _, messages = press("SELECT a,", ENTER, " nope;", ENTER)

    assert "   nope\n   ^^^^\n" in messages


def test_commands_run_their_statements(gateway: Gateway, press: Press) -> None:
    gateway.engine.relations_of[()] = ("daily",)

    out, messages = press(
        r"\dt", ENTER, r"\l", ENTER, r"\timing off", ENTER, r"\set a 1", ENTER, r"\set a", ENTER
    )

    assert out.splitlines() == [
        "table name",
        "daily",
        "catalog name",
        "lake",
        "spark_catalog",
        "key,value",
        "a,1",
    ]
    assert "The time of statements is not shown." in messages


def test_commands_about_a_table_name_it(gateway: Gateway, press: Press) -> None:
    run = replace(gateway.runs.queue(), decision=SKIP, reason="no source has changed")
    described = [["id", "BIGINT"], ["# Materialized table", ""]]
    columns = (Column(name="name"), Column(name="type"))
    extended = ShowLineage(extended=True)
    gateway.commands.outcomes |= {
        ShowRefreshes: CommandOutcome(
            rows=run_rows(
                [RunView(run=run, table=TableIdentifier("lake", ("shop",), "daily"))], extended=True
            )
        ),
        ShowLineage: CommandOutcome(
            rows=lineage_rows([table_facts("daily", "orders")], NOON, extended, None)
        ),
        DescribeTable: CommandOutcome(rows=RowSet(columns=columns, rows=described)),
    }

    out, _ = press(
        r"\why daily", ENTER, r"\lineage daily;", ENTER, r"\d daily", ENTER, r"\refreshes daily", ENTER
    )

    assert out.splitlines()[:3] == [
        (
            "lake.shop.daily: the MANUAL refresh of 2026-01-02 03:04:05 was skipped, because: "
            "no source has changed."
        ),
        "lake.shop.daily: OK, freshness INTERVAL '1' HOUR, stale for 0 s",
        "└── lake.shop.orders (table)",
    ]
    asked = [type(statement) for statement, _ in gateway.commands.executed]
    assert asked == [ShowRefreshes, ShowLineage, DescribeTable, ShowRefreshes]


def test_watch_runs_the_last_statement_again_until_ctrl_c(gateway: Gateway, press: Press) -> None:
    out, messages = press(r"\watch 1", ENTER, "SELECT 1;", ENTER, r"\watch 0", ENTER, r"\watch 0.5", ENTER)

    assert (out, executed(gateway)) == ("a\n1\n" * 3, ["SELECT 1"] * 3)
    assert "no statement has run yet; run one first." in messages
    assert "expected a number of seconds above 0" in messages


def test_watch_ends_at_an_error_with_a_caret_under_the_token(gateway: Gateway, press: Press) -> None:
    gateway.engine.answers["SELECT nope"] = QueryFailed(
        "[UNRESOLVED_COLUMN] There is no column nope.", line=1, position=8
    )

    _, messages = press("SELECT nope;", ENTER, r"\watch 0.1", ENTER)

    assert messages.count("  SELECT nope\n         ^^^^\n") == 2


def test_source_runs_a_file_up_to_its_first_error(gateway: Gateway, press: Press, tmp_path: Path) -> None:
    file = tmp_path / "some statements.sql"
    file.write_text("SELECT 1;\nwrong;\nSELECT 1;")

    out, messages = press(f"SOURCE '{file}';", ENTER, "source none.sql", ENTER, "SOURCE", ENTER)

    assert (out, executed(gateway)) == ("a\n1\n", ["SELECT 1", "wrong"])
    assert "Statement 2 (wrong) failed" in messages
    assert "none.sql cannot be read" in messages
    assert "SOURCE needs a file" in messages


def test_help_shows_commands_and_examples(gateway: Gateway, press: Press) -> None:
    _, messages = press(
        "HELP;", ENTER, "help stop", ENTER, "HELP nonsense", ENTER, r"\nope", ENTER, r"\why", ENTER
    )

    assert r"\lineage table" in messages
    assert "STOP JOB 'a1b2c3d4e5f60718293a4b5c6d7e8f90' WITH SAVEPOINT;" in messages
    assert "There is no example of NONSENSE" in messages
    assert r"There is no command \nope" in messages
    assert r"\why needs a table" in messages
    assert executed(gateway) == []


@pytest.mark.parametrize("word", ["QUIT;", "exit", r"\q"])
def test_a_person_leaves_by_a_word(gateway: Gateway, press: Press, word: str) -> None:
    press(word, ENTER, "SELECT 1;", ENTER)

    assert (executed(gateway), len(gateway.sessions)) == ([], 0)


@pytest.mark.parametrize(("blanks", "is_kept"), [(10, True), (200_000, False)])
def test_a_statement_too_long_to_send_with_each_key_offers_no_columns_to_the_next_one(
    gateway: Gateway, tmp_path: Path, blanks: int, is_kept: bool
) -> None:
    screen = Screen(out=io.StringIO(), messages=Console(file=io.StringIO()), form=Form.CSV)
    with GatewayClient(str(gateway.http.base_url)) as client, create_pipe_input() as input_:
        sitting = PromptState(runner=Runner(client, screen), environ={"XDG_STATE_HOME": str(tmp_path)})
        sitting.last = f"SELECT a FROM t WHERE{' ' * blanks}a > 1"
        with Editor(sitting, input=input_, output=DummyOutput()) as editor:
            input_.send_text("SELECT 1;\r")
            editor.read("> ")

    assert (editor._of_tables == sitting.last) is is_kept


def test_why_and_lineage_read_what_a_gateway_writes(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    whole.sql(EVERY_10_S.format("`a b`", "daily"))
    out = io.StringIO()
    screen = Screen(out=out, messages=Console(file=io.StringIO(), width=100))
    sitting = PromptState(runner=Runner(whole.client, screen), environ={})

    run_command(sitting, r"\why daily")
    run_command(sitting, r"\lineage `a b`;")

    assert out.getvalue().splitlines() == [
        "lake.default.daily: the INITIAL refresh of 2026-03-01 12:00:00 computed rows by recompute and "
        "ended as SUCCEEDED, because: never refreshed before.",
        "lake.default.`a b`: OK, freshness INTERVAL '10' SECOND, stale for 0 s",
        "└── lake.default.daily: OK, freshness INTERVAL '1' DAY, stale for 0 s",
        "    └── lake.default.orders (table)",
    ]
