from __future__ import annotations

import io
import sys

import pytest
from typer.testing import CliRunner

from mt_core import __version__
from mt_core.cli import app, read_script


class Terminal(io.StringIO):
    """Standard input of somebody who types."""

    def isatty(self) -> bool:
        return True


def test_who_starts_sql_without_statements_is_told_that_it_waits_for_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("SELECT 1"))

    script = read_script(None, None)

    said = capsys.readouterr()
    assert (script, said.out) == ("SELECT 1", "")
    assert said.err == "Type statements, each with its `;`, then Ctrl-D. Or give them by -e or -f.\n"


def test_a_script_from_a_pipe_is_read_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 1"))

    script = read_script(None, None)

    assert (script, *capsys.readouterr()) == ("SELECT 1", "", "")


def test_the_version_is_told() -> None:
    result = CliRunner().invoke(app, ["--version"])

    assert (result.exit_code, result.output) == (0, f"freshtable {__version__}\n")
