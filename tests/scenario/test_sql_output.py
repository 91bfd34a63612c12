"""The rows of `freshtable sql` in a file."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner, Result

from mt_core.cli import app
from mt_core.rowset import INT, STRING, Column, LogicalType, RowSet
from mt_core.sessions.ports import StatementResult
from tests.support.gateway.statements import Gateway

AMOUNT = LogicalType(root="DECIMAL", extras={"precision": 10, "scale": 2})
COLUMNS = (Column(name="n", type=INT), Column(name="city", type=STRING), Column(name="amount", type=AMOUNT))
MANY = 12_000


@pytest.fixture(autouse=True)
def rows(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A query with rows on several pages, and one without any; no file of settings."""
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
def test_a_columnar_file_has_all_rows_of_a_query_with_their_types(gateway: Gateway, tmp_path: Path, form: str) -> None:
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
def test_a_query_without_rows_gives_a_file_with_its_columns(gateway: Gateway, tmp_path: Path, form: str) -> None:
    file = tmp_path / f"rows.{form}"

    result = freshtable(gateway, "--format", form, "-o", str(file), "-e", "SELECT none")

    assert (result.exit_code, read(file, form).num_rows) == (0, 0)
    assert read(file, form).column_names == ["n", "city", "amount"]


def test_a_columnar_file_holds_one_query(gateway: Gateway, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"

    result = freshtable(gateway, "--format", "parquet", "-o", str(file), "-e", "SELECT none", "-e", "SELECT many")

    assert (result.exit_code, read(file, "parquet").num_rows) == (1, 0)
    assert "has the rows of the query before; write each query to a file of its own." in result.stderr


@pytest.mark.parametrize(
    ("statement", "reason"), [("wrong", "PARSE_SYNTAX_ERROR"), ("SET a = 1", "no statement is a query")]
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
