from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from mt_core.base.rowset import Column, RowSet
from mt_core.cli import app
from mt_core.client.http import GatewayClient
from mt_core.client.pages import ResultPage
from mt_core.errors import QueryFailed
from mt_core.sessions.ports import StatementResult
from mt_core.sql.statements import SuspendTable
from mt_core.tables.table_commands import CommandOutcome
from mt_core.terminal.background import Work
from mt_core.terminal.output.form import Form
from mt_core.terminal.prompt.prompt import PlainReader, Prompt
from mt_core.terminal.prompt.state import CONTINUATION, PROMPT, PromptState
from mt_core.terminal.script import Runner, Screen
from tests.support.gateway.statements import Gateway


def freshtable(gateway: Gateway, *arguments: str, text: str = "") -> Result:
    url = str(gateway.http.base_url)
    return CliRunner().invoke(app, ["sql", *arguments], input=text, env={"FRESHTABLE_GATEWAY": url})


def test_statements_print_their_rows_and_the_session_is_closed(gateway: Gateway) -> None:
    result = freshtable(gateway, "-e", "USE lake", "-e", "SELECT 1;", "--format", "csv")

    assert (result.exit_code, result.stdout, result.stderr) == (0, "a\n1\n", "")
    assert len(gateway.sessions) == 0


@pytest.mark.parametrize("from_file", [True, False])
def test_a_script_comes_from_a_file_or_from_standard_input(
    gateway: Gateway, tmp_path: Path, from_file: bool
) -> None:
    script, file = "SET a = 1; -- one; statement\nSELECT 1;\n", tmp_path / "script.sql"
    file.write_text(script)

    result = (
        freshtable(gateway, "-f", str(file), "--format", "json")
        if from_file
        else freshtable(gateway, "--format", "json", text=script)
    )

    assert (result.exit_code, result.stdout) == (0, '{"a": 1}\n')
    assert [(dict(context.properties), sql) for context, sql in gateway.engine.executed] == [
        ({"a": "1"}, "SELECT 1")
    ]


def test_the_first_error_stops_the_script_and_names_the_statement(gateway: Gateway) -> None:
    result = freshtable(gateway, "--format", "csv", text="SELECT 1;\nSELECT\n  wrong;\nSELECT 1")

    assert (result.exit_code, result.stdout) == (1, "a\n1\n")
    assert result.stderr.startswith("Error: Statement 2 (SELECT) failed: [PARSE_SYNTAX_ERROR] Syntax error")
    assert len(gateway.engine.executed) == 2


def test_the_error_of_a_script_shows_no_secret_of_its_statement(gateway: Gateway) -> None:
    statement = "CREATE TABLE t USING jdbc OPTIONS ('password' = 'hunter2') AS"
    gateway.engine.answers[statement] = QueryFailed(
        "There is a query missing; write one.", line=1, position=60
    )

    result = freshtable(gateway, text=f"{statement};")

    assert (result.exit_code, "There is a query missing" in result.stderr) == (1, True)
    assert "'password' = '***'" in result.stderr
    assert "hunter2" not in result.stderr


def test_an_error_with_a_place_shows_the_line_of_its_statement_below_it(gateway: Gateway) -> None:
    gateway.engine.answers["SELECT 1,\n  nope"] = QueryFailed(
        "There is no nope; write a.", line=2, position=3
    )

    result = freshtable(gateway, text="SELECT 1;\n-- the next one\nSELECT 1,\n  nope;")

    assert result.stderr == (
        "Error: Statement 2 (SELECT 1,) failed: There is no nope; write a. (line 2, position 3)\n"
        "    nope\n    ^^^^\n"
    )


def test_a_warning_goes_to_standard_error(gateway: Gateway) -> None:
    gateway.commands.outcomes[SuspendTable] = CommandOutcome(warnings=("Airflow [is] away.",))

    result = freshtable(gateway, "-e", "ALTER MATERIALIZED TABLE daily SUSPEND")

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "Warning: Airflow [is] away.\nOK\n")


def test_a_warning_of_a_statement_of_spark_goes_to_standard_error_too(gateway: Gateway) -> None:
    gateway.engine.answers["DROP TABLE t"] = StatementResult(
        is_query=False, rows=None, warnings=("t is read by mt.",)
    )

    result = freshtable(gateway, "-e", "DROP TABLE t")

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "Warning: t is read by mt.\nOK\n")


@pytest.mark.parametrize("form", ["table", "tableau", "vertical", "markdown", "csv", "tsv", "json"])
def test_a_change_in_a_script_says_how_many_rows_it_wrote_and_prints_no_id_of_its_job(
    gateway: Gateway, form: str
) -> None:
    for statement, count in (("INSERT INTO t SELECT 1", 1000), ("DELETE FROM t WHERE a = 1", 1)):
        gateway.engine.answers[statement] = StatementResult(is_query=False, rows=None, affected_rows=count)

    result = freshtable(
        gateway, "--format", form, "-e", "INSERT INTO t SELECT 1", "-e", "DELETE FROM t WHERE a = 1"
    )

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1000 rows written\n1 row written\n")


@pytest.mark.parametrize(("form", "said"), [("table", "OK\n"), ("csv", "")])
def test_a_change_whose_rows_are_not_counted_says_ok_to_people(
    gateway: Gateway, form: str, said: str
) -> None:
    gateway.engine.answers["UPDATE t SET a = 1"] = StatementResult(is_query=False, rows=None)

    result = freshtable(gateway, "--format", form, "-e", "UPDATE t SET a = 1")

    assert (result.stdout, result.stderr) == ("", said)


@pytest.mark.parametrize("form", ["table", "csv"])
def test_a_change_that_may_go_on_as_a_stream_has_the_id_of_its_job(gateway: Gateway, form: str) -> None:
    gateway.engine.answers["INSERT INTO t SELECT 1"] = StatementResult(is_query=False, rows=None)

    result = freshtable(
        gateway, "-D", "execution.runtime-mode=streaming", "--format", form, "-e", "INSERT INTO t SELECT 1"
    )

    assert "job id" in result.stdout
    assert "written" not in result.stderr


FLINKS_COLUMNS = ("name", "type", "null", "key", "extras", "watermark")


@pytest.mark.parametrize(
    ("form", "values", "header"),
    [
        ("markdown", [None, None, None], "| name | type | null |"),
        ("markdown", [None, "PARTITION KEY", None], "| name | type | null | extras |"),
        ("markdown", ["PRI(id)", None, None], "| name | type | null | key |"),
        ("csv", [None, None, None], ",".join(FLINKS_COLUMNS)),
    ],
)
def test_describe_shows_people_the_columns_of_flinks_form_that_have_a_value(
    gateway: Gateway, form: str, values: list[object], header: str
) -> None:
    columns = tuple(Column(name=name) for name in FLINKS_COLUMNS)
    rows: list[list[object]] = [["id", "INT", "FALSE", *values], ["city", "STRING", "TRUE", None, None, None]]
    gateway.engine.answers["CALL described()"] = StatementResult(
        is_query=False, rows=RowSet(columns=columns, rows=rows)
    )

    result = freshtable(gateway, "--format", form, "-e", "CALL described()")

    assert result.stdout.splitlines()[0] == header


class _Opened:
    """A viewer that leaves each result to be printed, and records its columns."""

    def __init__(self) -> None:
        self.columns = list[list[str]]()

    def open(
        self, work: Work, pages: Iterable[ResultPage], properties: Callable[[], Mapping[str, str]]
    ) -> Iterable[ResultPage]:
        every = list(pages)
        self.columns.append([column.name for column in every[0].columns])
        return every


def test_the_view_of_describe_has_no_columns_of_flinks_form_without_a_value(gateway: Gateway) -> None:
    columns = tuple(Column(name=name) for name in FLINKS_COLUMNS)
    rows: list[list[object]] = [["id", "INT", "FALSE", None, None, None]]
    gateway.engine.answers["CALL described()"] = StatementResult(
        is_query=False, rows=RowSet(columns=columns, rows=rows)
    )
    viewer, screen = _Opened(), Screen(out=io.StringIO(), messages=Console(file=io.StringIO()))

    with GatewayClient(str(gateway.http.base_url)) as client:
        Runner(client, screen, viewer).run("CALL described()")

    assert viewer.columns == [["name", "type", "null"]]


def test_an_interrupt_cancels_the_statement(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    from mt_core.client.http import GatewayClient

    def interrupted(self: GatewayClient, operation: str, on_progress: object = None) -> None:
        hold.wait_entered()
        raise KeyboardInterrupt

    hold = gateway.engine.hold("SELECT 1")
    monkeypatch.setattr(GatewayClient, "pages", interrupted)

    result = freshtable(gateway, "-e", "SELECT 1")

    assert hold.ended.wait(60)
    assert (result.exit_code, result.stderr, len(gateway.engine.canceled)) == (130, "Cancelled.\n", 1)


def test_a_token_is_sent(guarded_gateway: Gateway) -> None:
    refused = freshtable(guarded_gateway, "-e", "SELECT 1")
    answered = freshtable(guarded_gateway, "-e", "SELECT 1", "--token", "first", "--format", "csv")

    assert (refused.exit_code, answered.exit_code, answered.stdout) == (3, 0, "a\n1\n")
    assert "Unauthorized: this gateway asks for a token" in refused.stderr
    assert "`freshtable sql` takes it from --token or FRESHTABLE_TOKEN" in refused.stderr


def test_the_token_that_the_gateway_left_in_its_home_folder_is_found(
    guarded_gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = guarded_gateway.http.base_url
    (tmp_path / "token").write_text("first\n", encoding="ascii")
    monkeypatch.setenv("FRESHTABLE_HOME", str(tmp_path))
    (tmp_path / "gateway.json").write_text(f'{{"url": "{url.copy_with(port=1)}"}}', encoding="ascii")
    of_another = freshtable(guarded_gateway, "-e", "SELECT 1")
    (tmp_path / "gateway.json").write_text(f'{{"url": "{url}"}}', encoding="ascii")

    answered = freshtable(guarded_gateway, "-e", "SELECT 1", "--format", "csv")

    assert (answered.exit_code, answered.stdout) == (0, "a\n1\n")
    assert (of_another.exit_code, "Unauthorized" in of_another.stderr) == (3, True)


def test_a_gateway_that_is_away_and_a_file_that_is_missing_are_named(tmp_path: Path) -> None:
    away = CliRunner().invoke(app, ["sql", "-e", "SELECT 1", "--gateway", "http://127.0.0.1:1"])
    missing = CliRunner().invoke(app, ["sql", "-f", str(tmp_path / "no.sql")])

    assert (away.exit_code, missing.exit_code) == (3, 2)
    assert "Is the gateway running? Start it with: freshtable gateway" in away.stderr
    assert "no.sql cannot be read" in missing.stderr


def typed(gateway: Gateway, *lines: str | type[BaseException]) -> tuple[list[str], str, str]:
    """Type lines at the prompt; return its prompts, output and messages. Exception classes are raised."""
    asked, out, messages, left = list[str](), io.StringIO(), io.StringIO(), list(lines)

    def read(prompt: str) -> str:
        asked.append(prompt)
        line = left.pop(0) if left else EOFError
        if isinstance(line, str):
            return line
        raise line

    screen = Screen(out=out, messages=Console(file=messages, width=200), form=Form.CSV)
    with GatewayClient(str(gateway.http.base_url), exact=True) as client:
        Prompt(PromptState(runner=Runner(client, screen), environ={}), PlainReader(read)).run()
    return asked, out.getvalue(), messages.getvalue()


def test_a_person_types_statements_at_a_prompt_and_an_error_does_not_end_it(gateway: Gateway) -> None:
    gateway.engine.answers["SELECT\n  1"] = gateway.engine.answers["SELECT 1"]

    asked, out, messages = typed(
        gateway, "SELECT", "  1;", "wrong;", "SELECT 1; SELECT 1;", "", "-- a note", "QUIT;"
    )

    assert (out, len(gateway.sessions)) == ("a\n1\n" * 3, 0)
    assert asked == [PROMPT, CONTINUATION, PROMPT, PROMPT, PROMPT, PROMPT, PROMPT]
    assert messages.startswith(f"Connected to {gateway.http.base_url}")
    assert "Error: [PARSE_SYNTAX_ERROR] Syntax error at or near 'wrong'." in messages


def test_ctrl_c_at_the_prompt_drops_what_was_typed_and_ctrl_d_says_what_was_not_run(gateway: Gateway) -> None:
    asked, out, messages = typed(gateway, "SELECT 'open;", KeyboardInterrupt, "SELECT 1;", "SELECT 1")

    assert asked == [PROMPT, CONTINUATION, PROMPT, PROMPT, CONTINUATION]
    assert out == "a\n1\n"
    assert messages.endswith("The last statement was not run: it has no `;`.\n")


def test_h_shows_the_options_as_help_does(gateway: Gateway) -> None:
    short, long = freshtable(gateway, "-h"), freshtable(gateway, "--help")

    assert (short.exit_code, short.stdout) == (0, long.stdout)
    assert "--gateway" in long.stdout
