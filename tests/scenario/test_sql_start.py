"""How `freshtable sql` starts, and its exit codes."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from mt_core.base.rowset import INT, Column, RowSet
from mt_core.cli import app
from mt_core.client.http import GatewayClient
from mt_core.errors import Unsupported
from mt_core.sessions.ports import StatementResult
from mt_core.terminal.exit_codes import ExitCode
from mt_core.terminal.script import Runner, Screen
from tests.support.fake_rows import FakeRows
from tests.support.gateway.statements import Gateway


@pytest.fixture(autouse=True)
def configuration_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration folder, still without a file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "freshtable"
    folder.mkdir()
    return folder


def freshtable(gateway: Gateway, *arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(app, ["sql", "--gateway", str(gateway.http.base_url), *arguments], input=text)


def executed(gateway: Gateway) -> list[str]:
    return [sql for _, sql in gateway.engine.executed]


def test_a_session_begins_with_its_properties_jars_catalog_and_schema(gateway: Gateway) -> None:
    arguments = [
        "-D",
        "table.dml-sync=true",
        "-D",
        "pipeline.name=it's",
        "--catalog",
        "lake",
        "--schema",
        "shop",
    ]
    gateway.engine.answers["USE `lake`.`shop`"] = StatementResult(is_query=False, rows=None)

    result = freshtable(gateway, *arguments, "-s", "nightly", "-e", "SELECT 1", "--format", "csv")

    assert (result.exit_code, result.stdout, result.stderr) == (0, "a\n1\n", "")
    [*_, (context, _)] = gateway.engine.executed
    assert executed(gateway) == ["USE `lake`.`shop`", "SELECT 1"]
    assert dict(context.properties) == {"table.dml-sync": "true", "pipeline.name": "it's"}


def test_settings_come_from_the_users_file_the_session_file_and_the_command_line(
    gateway: Gateway, configuration_folder: Path, tmp_path: Path
) -> None:
    (configuration_folder / "client.yaml").write_text(
        "format: json\nproperties: {table.dml-sync: true, pipeline.name: own, parallelism.default: 1}\n"
    )
    session = tmp_path / "session.yaml"
    session.write_text("format: csv\nproperties: {pipeline.name: session, parallelism.default: 2}\n")

    result = freshtable(
        gateway,
        "--config",
        str(session),
        "-D",
        "parallelism.default=3",
        "-e",
        "SET pipeline.name = x",
        "-e",
        "SELECT 1",
    )

    assert (result.exit_code, result.stdout) == (0, "a\n1\n")
    [(context, _)] = gateway.engine.executed
    assert dict(context.properties) == {
        "table.dml-sync": "true",
        "pipeline.name": "x",
        "parallelism.default": "3",
    }


def test_an_init_file_runs_first_and_an_error_in_it_stops_the_client(
    gateway: Gateway, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good.sql", tmp_path / "bad.sql"
    good.write_text("SET pipeline.name = first;")
    bad.write_text("wrong;")

    ran = freshtable(gateway, "-i", str(good), "-e", "SELECT 1", "--format", "csv")
    stopped = freshtable(gateway, "-i", str(good), "-i", str(bad), "-e", "SELECT 1", "--format", "csv")

    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, "a\n1\n", "")
    assert (stopped.exit_code, stopped.stdout) == (1, "")
    assert stopped.stderr.startswith("Error: Statement 1 (wrong) failed: ")
    assert [dict(context.properties) for context, sql in gateway.engine.executed if sql == "SELECT 1"] == [
        {"pipeline.name": "first"}
    ]


def test_a_query_in_an_init_file_is_refused_before_any_statement_runs(
    gateway: Gateway, tmp_path: Path
) -> None:
    file = tmp_path / "init.sql"
    file.write_text("USE lake;\nSELECT 1;")

    result = freshtable(gateway, "-i", str(file), "-e", "SELECT 1")

    assert (result.exit_code, result.stdout, executed(gateway)) == (2, "", [])
    assert (
        result.stderr == f"Error: {file}, line 2: an init file must not contain a query or an INSERT; "
        "run them with -f or -e.\n"
    )


def test_with_continue_all_statements_run_and_the_exit_code_still_says_that_one_failed(
    gateway: Gateway,
) -> None:
    result = freshtable(gateway, "--continue", "--format", "csv", text="SELECT 1;\nwrong;\nSELECT 1;\nbad;")

    assert (result.exit_code, result.stdout) == (1, "a\n1\na\n1\n")
    assert [line.partition(": [")[0] for line in result.stderr.splitlines() if line.startswith("Error")] == [
        "Error: Statement 2 (wrong) failed",
        "Error: Statement 4 (bad) failed",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["-e", "SELECT 1", "-f", "x.sql"],
            "-e and -f cannot be used together; put the statements of -e into the file.",
        ),
        (["-D", "novalue"], "-D novalue is not an assignment; write for example -D table.dml-sync=true."),
        (["--format", "parquet", "-e", "SELECT 1"], "--format parquet needs -o FILE: "),
        (
            ["--format", "csv", "-o", "no/such/folder.csv", "-e", "SELECT 1"],
            "no/such/folder.csv cannot be written: ",
        ),
        (
            ["--format", "arrow", "-o", "no/such/x.arrow", "-e", "SELECT 1"],
            "no/such/x.arrow: there is no folder ",
        ),
        (["--format", "xml"], "There is no format xml; the formats are "),
        (
            ["-D", "sql-client.verbos=true"],
            "There is no property sql-client.verbos; did you mean sql-client.verbose?",
        ),
        (["--config", "nowhere.yaml"], "nowhere.yaml cannot be read: "),
    ],
)
def test_a_wrong_command_line_is_exit_code_2_and_opens_no_session(
    gateway: Gateway, arguments: list[str], message: str
) -> None:
    result = freshtable(gateway, *arguments)

    assert (result.exit_code, result.stdout, executed(gateway)) == (2, "", [])
    assert result.stderr.startswith(f"Error: {message}")


def test_a_property_that_the_gateway_does_not_know_is_refused_at_the_start(gateway: Gateway) -> None:
    result = freshtable(gateway, "-D", "table.exec.state.tll=1 h", "-e", "SELECT 1")

    assert (result.exit_code, result.stdout, len(gateway.sessions)) == (1, "", 0)
    assert "There is no property table.exec.state.tll; did you mean table.exec.state.ttl?" in result.stderr


def test_a_gateway_without_room_for_a_session_is_exit_code_3(gateway: Gateway) -> None:
    for _ in range(3):
        gateway.open()

    result = freshtable(gateway, "-e", "SELECT 1")

    assert (result.exit_code, result.stdout) == (3, "")


def test_the_result_mode_of_the_session_says_how_rows_look_and_set_changes_it(gateway: Gateway) -> None:
    result = freshtable(
        gateway,
        *("-D", "sql-client.execution.result-mode=tableau", "-e", "SELECT 1"),
        *("-e", "SET 'sql-client.execution.result-mode' = 'table'", "-e", "SELECT 1"),
    )

    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "+-------------+"
    assert "┃ a ┃" in result.stdout


def test_a_changelog_of_a_batch_query_is_refused_with_the_modes_that_there_are(gateway: Gateway) -> None:
    result = freshtable(gateway, "-D", "sql-client.execution.result-mode=changelog", "-e", "SELECT 1")

    assert (result.exit_code, result.stdout) == (1, "")
    assert "in batch mode, SET 'sql-client.execution.result-mode' = 'table' or 'tableau'." in result.stderr


def test_a_query_whose_result_the_client_refuses_does_not_go_on(gateway: Gateway) -> None:
    rows = FakeRows([1])
    gateway.engine.answers["SELECT 1"] = StatementResult(is_query=True, rows=rows)
    screen = Screen(out=io.StringIO(), messages=Console(file=io.StringIO()))
    with GatewayClient(str(gateway.http.base_url)) as client:
        client.open_session("refuses", {"sql-client.execution.result-mode": "changelog"})

        with pytest.raises(Unsupported, match="in batch mode"):
            Runner(client, screen).run("SELECT 1")

        assert rows.closed


def test_a_table_has_as_many_rows_as_the_session_asks_for_and_says_that_there_are_more(
    gateway: Gateway,
) -> None:
    rows = RowSet(columns=(Column(name="n", type=INT),), rows=[[number] for number in range(10_000)])
    gateway.engine.answers["SELECT n"] = StatementResult(is_query=True, rows=rows)

    table = freshtable(gateway, "-D", "sql-client.execution.max-table-result.rows=6000", "-e", "SELECT n")
    csv = freshtable(
        gateway, "-D", "sql-client.execution.max-table-result.rows=6000", "-e", "SELECT n", "--format", "csv"
    )

    assert table.stdout.splitlines()[-1] == "6000 rows"
    assert table.stderr.startswith("The table shows only the first 6000 rows: for more, ")
    assert (len(csv.stdout.splitlines()), csv.stderr) == (10_001, "")


def test_a_table_of_fewer_rows_than_a_page_has_as_many_as_the_session_asks_for(gateway: Gateway) -> None:
    rows = RowSet(columns=(Column(name="n", type=INT),), rows=[[number] for number in range(20)])
    gateway.engine.answers["SELECT n"] = StatementResult(is_query=True, rows=rows)

    table = freshtable(gateway, "-D", "sql-client.execution.max-table-result.rows=10", "-e", "SELECT n")

    assert table.stdout.splitlines()[-1] == "10 rows"
    assert table.stderr.startswith("The table shows only the first 10 rows: for more, ")


def test_a_value_that_the_client_cannot_use_is_set_right_or_reset_in_the_same_session(
    gateway: Gateway,
) -> None:
    key = "sql-client.execution.max-table-result.rows"
    rows = RowSet(columns=(Column(name="n", type=INT),), rows=[[1]])
    gateway.engine.answers["SELECT n"] = StatementResult(is_query=True, rows=rows)
    statements = (f"SET '{key}' = '-1'", "SELECT n", f"RESET '{key}'", "SELECT n")

    run = freshtable(gateway, "--continue", "--format", "csv", *(f"-e{each}" for each in statements))

    assert run.stdout.splitlines() == ["n", "1"]
    assert run.stderr.splitlines() == [
        f"Error: Statement 2 (SELECT n) failed: {key}: '-1' cannot be used; expected a whole number above 0."
    ]
    assert run.exit_code == ExitCode.FAILED


def test_a_verbose_error_has_its_code_and_facts(gateway: Gateway) -> None:
    quiet = freshtable(gateway, "-e", "wrong")
    verbose = freshtable(gateway, "-D", "sql-client.verbose=true", "-e", "wrong")

    assert verbose.stderr.startswith(quiet.stderr)
    assert "code=QUERY_FAILED" in verbose.stderr.removeprefix(quiet.stderr)


def test_a_reader_that_has_enough_ends_the_client_without_an_error(gateway: Gateway) -> None:
    rows = RowSet(columns=(Column(name="n", type=INT),), rows=[[number] for number in range(50_000)])
    gateway.engine.answers["SELECT n"] = StatementResult(is_query=True, rows=rows)
    command = [
        sys.executable,
        "-m",
        "mt_core",
        "sql",
        "--gateway",
        str(gateway.http.base_url),
        "--format",
        "csv",
    ]

    with subprocess.Popen(
        [*command, "-e", "SELECT n"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout is not None
        assert client.stderr is not None
        first = [client.stdout.readline() for _ in range(2)]
        client.stdout.close()
        messages = client.stderr.read()

    assert (first, client.returncode, messages) == (["n\n", "0\n"], 0, "")
    assert len(gateway.sessions) == 0


@pytest.mark.parametrize("reset", ["RESET", "RESET 'table.local-time-zone'"])
def test_reset_brings_back_what_the_command_line_said(gateway: Gateway, reset: str) -> None:
    statements = ("SET 'table.local-time-zone' = 'Asia/Tokyo'", reset, "SET 'table.local-time-zone'")

    run = freshtable(
        gateway,
        "-D",
        "table.local-time-zone=Europe/Rome",
        "--format",
        "csv",
        *(f"-e{each}" for each in statements),
    )

    assert run.stdout.splitlines()[-1] == "table.local-time-zone,Europe/Rome"
