from __future__ import annotations

import io
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner

from mt_core import __version__
from mt_core.cli import app, read_script
from mt_core.spark.jars import CONNECTOR_PACKAGES


def test_a_script_from_a_pipe_is_read_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 1"))

    script = read_script(None, None)

    assert (script, *capsys.readouterr()) == ("SELECT 1", "", "")


def test_the_version_is_told() -> None:
    result = CliRunner().invoke(app, ["--version"])

    assert (result.exit_code, result.output) == (0, f"freshtable {__version__}\n")


def test_the_jars_of_a_connector_that_are_there_are_told_without_a_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for package in CONNECTOR_PACKAGES["kafka"]:
        _, artifact, version = package.split(":")
        with ZipFile(tmp_path / f"{artifact}-{version}.jar", "w"):
            pass
    monkeypatch.setenv("FRESHTABLE_SPARK_JARS", str(tmp_path))

    result = CliRunner().invoke(app, ["jars", "add", "kafka"])

    assert (result.exit_code, result.output) == (0, f"Jars of kafka: 4 in {tmp_path}\n")


def test_the_jars_of_a_connector_that_has_none_are_refused() -> None:
    result = CliRunner().invoke(app, ["jars", "add", "pulsar"])

    assert (result.exit_code, result.output) == (
        1,
        "Error: There are no jars of a connector 'pulsar'; there are those of kafka.\n",
    )
