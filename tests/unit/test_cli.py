from __future__ import annotations

import io
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner

from mt_core import __version__
from mt_core.cli import app
from mt_core.plans.json_form import plan_text
from mt_core.spark.driver.jars import JAR_SETS
from mt_core.terminal.options import SqlOptions
from tests.support.plans import DAY, HOUR, compiled, deduplicate, scan


def test_a_script_from_a_pipe_is_read_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 1"))

    script = SqlOptions().script()

    assert (script, *capsys.readouterr()) == ("SELECT 1", "", "")


def test_the_version_is_told() -> None:
    result = CliRunner().invoke(app, ["--version"])

    assert (result.exit_code, result.output) == (0, f"freshtable {__version__}\n")


@pytest.mark.parametrize(
    ("name", "number", "when"),
    [("kafka", 4, "by the statements that need them"), ("s3a", 4, "when a gateway starts")],
)
def test_jars_that_are_there_are_reported_without_a_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, number: int, when: str
) -> None:
    for package in JAR_SETS[name].packages:
        _, artifact, version = package.split(":")
        with ZipFile(tmp_path / f"{artifact}-{version}.jar", "w"):
            pass
    monkeypatch.setenv("FRESHTABLE_SPARK_JARS", str(tmp_path))

    result = CliRunner().invoke(app, ["jars", "add", name])

    assert (result.exit_code, result.output) == (
        0,
        f"Jars of {name}: {number} in {tmp_path}, loaded {when}\n",
    )


def test_an_unknown_set_of_jars_is_refused() -> None:
    result = CliRunner().invoke(app, ["jars", "add", "pulsar"])

    assert (result.exit_code, result.output) == (
        1,
        "Error: There is no set of jars 'pulsar'; the sets are kafka, aws, s3a, gcp, azure.\n",
    )


def test_the_differences_of_two_plans_are_printed_a_line_each(tmp_path: Path) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(plan_text(compiled(deduplicate(scan(), HOUR))), encoding="utf-8")
    after.write_text(plan_text(compiled(deduplicate(scan(), DAY))), encoding="utf-8")

    differing = CliRunner().invoke(app, ["plan", "diff", str(before), str(after)])
    equal = CliRunner().invoke(app, ["plan", "diff", str(before), str(before)])

    line = "TTL of deduplicateState of node 2 (stream-exec-deduplicate_1): 1 h -> 1 d\n"
    assert (differing.exit_code, differing.output) == (1, line)
    assert (equal.exit_code, equal.output) == (0, "")


def test_a_file_that_is_no_plan_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{}", encoding="utf-8")

    refused = CliRunner().invoke(app, ["plan", "diff", str(broken), str(tmp_path / "missing.json")])

    assert (refused.exit_code, refused.output) == (2, f"Error: Plan {broken}: version is missing.\n")


def test_the_option_without_functions_is_stronger_than_the_setting(tmp_path: Path) -> None:
    # Neither gateway starts, because of a setting that is read after it.
    settings = ["-D", "sql-gateway.functions.enabled=perhaps", "-D", "sql-gateway.result.max-memory=much"]
    arguments = ["gateway", "--home", str(tmp_path), *settings]

    without = CliRunner().invoke(app, [*arguments, "--without-functions"])
    neither = CliRunner().invoke(app, arguments)

    assert ("functions.enabled" in neither.output, "functions.enabled" in without.output) == (True, False)
    assert (without.exit_code, "sql-gateway.result.max-memory" in without.output) == (1, True)
