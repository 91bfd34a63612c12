"""The results of `freshtable sql` in a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner, Result

from mt_core.base.rowset import INT, STRING, Column, LogicalType, RowSet
from mt_core.cli import app
from mt_core.client.http import GatewayClient
from mt_core.client.pages import ResultPage
from mt_core.sessions.ports import StatementResult
from tests.support.gateway.statements import Gateway

AMOUNT = LogicalType(root="DECIMAL", extras={"precision": 10, "scale": 2})
COLUMNS = (Column(name="n", type=INT), Column(name="city", type=STRING), Column(name="amount", type=AMOUNT))
MANY = 12_000


@pytest.fixture(autouse=True)
def rows(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One query with several pages of rows and one without rows; no configuration file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    rows = [[number, None if number % 2 else "Rome", Decimal("1.50")] for number in range(MANY)]
    for sql, given in {"SELECT many": rows, "SELECT none": list[list[object]]()}.items():
        gateway.engine.answers[sql] = StatementResult(is_query=True, rows=RowSet(columns=COLUMNS, rows=given))


def freshtable(gateway: Gateway, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["sql", "--gateway", str(gateway.http.base_url), *arguments])


def read(file: Path, form: str) -> pa.Table:
    if form == "parquet":
        return parquet.read_table(file)
    with pa.memory_map(str(file)) as source:
        return pa.ipc.open_file(source).read_all()


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_a_columnar_file_has_all_rows_of_a_query_with_their_types(
    gateway: Gateway, tmp_path: Path, form: str
) -> None:
    file = tmp_path / f"rows.{form}"
    file.write_text("what was there before")

    result = freshtable(gateway, "--format", form, "-o", str(file), "-e", "SET a = 1", "-e", "SELECT many")

    table = read(file, form)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{MANY} rows in {file}\n"
    assert [str(kind) for kind in table.schema.types] == ["int32", "string", "decimal128(10, 2)"]
    assert table.column("n").to_pylist() == list(range(MANY))
    assert table.slice(0, 2).to_pylist() == [
        {"n": 0, "city": "Rome", "amount": Decimal("1.50")},
        {"n": 1, "city": None, "amount": Decimal("1.50")},
    ]
    assert sorted(each.name for each in tmp_path.iterdir()) == [file.name]


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_a_query_without_rows_gives_a_file_with_its_columns(
    gateway: Gateway, tmp_path: Path, form: str
) -> None:
    file = tmp_path / f"rows.{form}"

    result = freshtable(gateway, "--format", form, "-o", str(file), "-e", "SELECT none")

    assert (result.exit_code, read(file, form).num_rows) == (0, 0)
    assert read(file, form).column_names == ["n", "city", "amount"]


def test_a_columnar_file_holds_one_query(gateway: Gateway, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"

    result = freshtable(
        gateway, "--format", "parquet", "-o", str(file), "-e", "SELECT none", "-e", "SELECT many"
    )

    assert (result.exit_code, read(file, "parquet").num_rows) == (1, 0)
    assert "already has the rows of another query; write each query to its own file." in result.stderr


@pytest.mark.parametrize(
    ("statement", "reason"), [("wrong", "PARSE_SYNTAX_ERROR"), ("SET a = 1", "there was no query")]
)
def test_without_rows_of_a_query_a_columnar_file_stays_as_it_was(
    gateway: Gateway, tmp_path: Path, statement: str, reason: str
) -> None:
    file = tmp_path / "rows.arrow"
    file.write_text("before")

    result = freshtable(gateway, "--format", "arrow", "-o", str(file), "-e", statement)

    assert (result.exit_code, file.read_text()) == (1, "before")
    assert reason in result.stderr
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_rows_as_text_go_to_a_file_too(gateway: Gateway, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"

    result = freshtable(gateway, "--format", "csv", "-o", str(file), "-e", "SELECT 1", "-e", "SELECT 1")

    assert (result.exit_code, result.stdout, result.stderr, file.read_text()) == (0, "", "", "a\n1\na\n1\n")


def test_a_file_of_text_stays_as_it_was_if_a_statement_fails(gateway: Gateway, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("what was there before")

    failed = freshtable(gateway, "--format", "csv", "-o", str(file), "-e", "SELECT 1", "-e", "wrong")
    after_failure = file.read_text()
    went_on = freshtable(
        gateway, "--format", "csv", "-o", str(file), "--continue", "-e", "wrong", "-e", "SELECT 1"
    )

    assert (failed.exit_code, after_failure) == (1, "what was there before")
    assert (went_on.exit_code, file.read_text()) == (1, "a\n1\n")
    assert [each.name for each in tmp_path.iterdir()] == ["rows.csv"]


def test_a_file_of_text_that_is_replaced_stays_a_link_and_keeps_who_may_read_it(
    gateway: Gateway, tmp_path: Path
) -> None:
    file, link = tmp_path / "rows.csv", tmp_path / "link.csv"
    file.touch(mode=0o600)
    link.symlink_to(file)

    result = freshtable(gateway, "--format", "csv", "-o", str(link), "-e", "SELECT 1")

    assert (result.exit_code, file.read_text(), link.is_symlink()) == (0, "a\n1\n", True)
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "write",
    [
        "TextFile(path).rows.write('a' * 99999)",
        "block = replacing(path); block.__enter__().open('w').write('a')",
    ],
)
def test_nothing_is_left_of_a_file_after_a_client_that_was_killed(tmp_path: Path, write: str) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("what was there before")
    code = (
        "import os, signal, sys; from pathlib import Path; path = Path(sys.argv[1]);"
        "from mt_core.terminal.output.replaced_file import TextFile, replacing;"
        f"{write}; os.kill(os.getpid(), signal.SIGKILL)"
    )

    killed = subprocess.run([sys.executable, "-c", code, str(file)], check=False)

    assert (killed.returncode, [each.name for each in tmp_path.iterdir()]) == (-signal.SIGKILL, ["rows.csv"])
    assert file.read_text() == "what was there before"


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_system_without_files_that_have_no_name_writes_beside_the_place(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.delattr("os.O_TMPFILE")
    file = tmp_path / "rows"

    result = freshtable(gateway, "--format", form, "-o", str(file), "-e", "SELECT 1")

    assert (result.exit_code, file.stat().st_size > 0) == (0, True)
    assert [each.name for each in tmp_path.iterdir()] == ["rows"]


def test_a_pipe_gets_rows_as_they_come(gateway: Gateway, tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()

    result = freshtable(gateway, "--format", "csv", "-o", str(pipe), "-e", "SELECT 1", "-e", "wrong")
    reader.join(30)

    assert (result.exit_code, read) == (1, ["a\n1\n"])


def test_ctrl_c_is_the_end_of_a_result_without_end_also_in_a_file(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.csv"
    pages = GatewayClient.pages

    def interrupted(self: GatewayClient, operation: str, on_progress: Any = None) -> Iterator[ResultPage]:
        yield next(pages(self, operation, on_progress))
        raise KeyboardInterrupt

    monkeypatch.setattr(GatewayClient, "pages", interrupted)

    result = freshtable(gateway, "--format", "csv", "-o", str(file), "-e", "SELECT 1")

    assert (result.exit_code, file.read_text()) == (130, "a\n1\n")
