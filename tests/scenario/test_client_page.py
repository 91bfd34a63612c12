"""What docs/client.md shows on the console is what the client prints."""

from __future__ import annotations

import re
import shlex
from decimal import Decimal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mt_core.cli import app
from mt_core.rowset import STRING, Column, LogicalType, RowSet
from mt_core.sessions.ports import StatementResult
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
    gateway.engine.answers.update({sql: StatementResult(is_query=True, rows=rows) for sql, rows in ANSWERS.items()})
    code, shown = 0, ""

    for line in re.findall(r"^\$ (.*)$", console, re.MULTILINE):
        shown += f"$ {line}\n"
        if line == "echo $?":
            shown += f"{code}\n"
        else:
            result = CliRunner().invoke(app, shlex.split(line)[1:])
            code, shown = result.exit_code, shown + result.stdout + result.stderr

    assert shown == console
