from __future__ import annotations

import io
import sys

import pytest
from typer.testing import CliRunner

from mt_core import __version__
from mt_core.cli import app, read_script


def test_a_script_from_a_pipe_is_read_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 1"))

    script = read_script(None, None)

    assert (script, *capsys.readouterr()) == ("SELECT 1", "", "")


def test_the_version_is_told() -> None:
    result = CliRunner().invoke(app, ["--version"])

    assert (result.exit_code, result.output) == (0, f"freshtable {__version__}\n")
