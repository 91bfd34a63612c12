"""The console output in docs/client.md is what the client prints."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from decimal import Decimal
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from mt_core.base.rowset import STRING, Column, LogicalType, RowSet
from mt_core.cli import app
from mt_core.sessions.ports import StatementResult
from mt_core.terminal.configuration import ClientConfiguration, read_file
from mt_core.terminal.display import COLUMN_WIDTH, KEYS, Display, ResultMode
from mt_core.terminal.exit_codes import ExitCode
from mt_core.terminal.output.form import Form
from mt_core.terminal.prompt.commands import COMMANDS
from tests.support.gateway.statements import Gateway

PAGE = Path(__file__).resolve().parents[2] / "docs" / "client.md"
CITY = Column(name="city", type=STRING)
AMOUNT = Column(name="amount", type=LogicalType(root="DECIMAL", extras={"precision": 10, "scale": 2}))
ANSWERS = {
    "SELECT city FROM orders": RowSet(columns=(CITY,), rows=[["Rome"], ["Oslo"]]),
    "SELECT city, amount FROM orders": RowSet(
        columns=(CITY, AMOUNT), rows=[["Rome", Decimal("10.00")], ["Oslo", Decimal("5.50")]]
    ),
}
INSERT = "INSERT INTO lake.shop.orders SELECT * FROM lake.shop.arrivals"


def consoles() -> list[str]:
    return re.findall(r"^```console\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_page_shows_a_console() -> None:
    assert len(consoles()) > 1


@pytest.mark.parametrize("console", consoles())
def test_the_console_of_the_page_is_what_the_client_prints(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, console: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("FRESHTABLE_GATEWAY", str(gateway.http.base_url))
    monkeypatch.chdir(tmp_path)
    gateway.engine.answers.update(
        {sql: StatementResult(is_query=True, rows=rows) for sql, rows in ANSWERS.items()}
    )
    gateway.engine.answers[INSERT] = StatementResult(is_query=False, rows=None, affected_rows=1000)
    code, shown = 0, ""

    for line in re.findall(r"^\$ (.*)$", console, re.MULTILINE):
        shown += f"$ {line}\n"
        if line == "echo $?":
            shown += f"{code}\n"
        else:
            result = CliRunner().invoke(app, shlex.split(line)[1:])
            code, shown = result.exit_code, shown + result.stdout + result.stderr

    assert shown == console


def test_the_page_has_every_command_with_its_arguments_and_no_other() -> None:
    rows = re.findall(
        r"^\| (`[^|]+) \| (.*) \|$",
        PAGE.read_text(encoding="utf-8").partition("### Commands")[2],
        re.MULTILINE,
    )

    names = {(f"{each.name} {each.arguments}".strip(), *each.others): each.purpose for each in COMMANDS}
    written = {", ".join(f"`{name}`" for name in every): purpose for every, purpose in names.items()}
    assert dict(rows[: len(written)]) == written


def tables() -> list[list[list[str]]]:
    """Return the cells of each table of the page, row by row, without its header."""
    lines = re.findall(r"(?:^\|.*\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [
        [re.split(r" \| |^\| | \|$", row)[1:-1] for row in table.splitlines()[2:]]
        for table in lines
        if "---" in table.splitlines()[1]
    ]


def headed(*first: str) -> list[list[str]]:
    """Return the table whose first rows begin with the code *first*."""
    return next(
        table
        for table in tables()
        if [row[0] for row in table[: len(first)]] == [f"`{each}`" for each in first]
    )


def test_the_page_has_every_option_of_the_command_and_no_other() -> None:
    page = PAGE.read_text(encoding="utf-8")
    options = get_command(app).commands["sql"].params  # type: ignore[attr-defined]
    cells = " ".join(row[0] for table in tables() for row in table if row[0].startswith(("`-", "`--")))

    in_tables, written = (
        set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", text))
        for text in (cells, " ".join(re.findall("`[^`\n]*`", page)))
    )
    known = {name for option in options for name in (*option.opts, *option.secondary_opts)}
    assert (known - written, in_tables - known) == (set(), set())


def test_the_page_has_every_property_of_the_client_with_its_default_and_no_other() -> None:
    rows = headed("sql-client.execution.result-mode")

    defaults = {key: row[1].strip("`") for row in rows for key in re.findall("`([^`]+)`", row[0])}

    assert set(defaults) == KEYS | {COLUMN_WIDTH}
    assert Display.of(defaults) == Display()


def test_the_page_has_every_form_and_view_of_rows() -> None:
    forms = [
        name for row in headed("table", "tableau", "vertical") for name in re.findall("`([a-z]+)`", row[0])
    ]
    views = [row[0].strip("`") for row in headed("table", "changelog")]

    assert (forms, views) == ([*Form], [*ResultMode])


def test_the_file_of_settings_on_the_page_can_be_read_and_names_every_key(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    [example] = re.findall(r"^```yaml\n(.*?)^```\n\n(.*?)$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "client.yaml").write_text(example[0])

    read = read_file(tmp_path / "client.yaml")

    assert (read.format, read.init, read.properties["table.dml-sync"]) == (
        "table",
        (str(tmp_path / "setup.sql"),),
        "true",
    )
    others = {key for key in re.findall("`([a-z-]+)`", example[1]) if key not in {"emacs", "vi"}}
    named = {line.partition(":")[0] for line in example[0].splitlines() if line[:1].strip()} | others
    assert {each.name.replace("_", "-") for each in fields(ClientConfiguration)} - named == set()


def test_the_page_has_every_exit_code() -> None:
    [codes] = [table for table in tables() if table[0][0] == "0"]

    assert [int(row[0]) for row in codes] == sorted(ExitCode)
