from __future__ import annotations

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mt_core.cli import app
from mt_core.setup.doctor import CHECKS


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of a new machine: a JDK, and a cache that is empty."""
    programs = tmp_path / "jdk" / "bin"
    programs.mkdir(parents=True)
    for name in ("java", "javac"):
        (programs / name).write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n", encoding="ascii")
        (programs / name).chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    return {
        "JAVA_HOME": str(tmp_path / "jdk"),
        "FRESHTABLE_SPARK_JARS": str(tmp_path / "jars"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "FRESHTABLE_SQL_GATEWAY_ENDPOINT_REST_PORT": str(port),
    }


def doctor(environ: dict[str, str], *arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments], env=environ)


def test_a_new_machine_is_well_and_stays_as_it_is(environ: dict[str, str], tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))

    result = doctor(environ, "--home", str(tmp_path / "home"))

    levels = {line.split()[0] for line in result.stdout.splitlines()}
    assert (result.exit_code, levels) == (0, {"ok", "note", "->"}), result.stdout
    for subject in CHECKS:
        assert f" {subject} " in result.stdout
    assert sorted(tmp_path.rglob("*")) == before


def test_a_problem_has_its_way_out_and_the_exit_code_1(environ: dict[str, str], tmp_path: Path) -> None:
    environ["JAVA_HOME"] = str(tmp_path)

    result = doctor(environ, "--home", str(tmp_path / "home"))

    lines = result.stdout.splitlines()
    at, _ = [number for number, line in enumerate(lines) if line.startswith("problem")]
    assert result.exit_code == 1
    assert lines[at] == f"problem java         JAVA_HOME is {tmp_path}, and there is no bin/java in it."
    assert lines[at + 1].strip().startswith("-> Install a JDK 17 or newer")


def test_the_settings_of_the_file_are_those_that_are_checked(environ: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "freshtable.yaml"
    file.write_text(
        f"freshtable.home: {tmp_path}/elsewhere\nworkflow-scheduler.type: sundial\n", encoding="utf-8"
    )

    result = doctor(environ, "-c", str(file))

    assert result.exit_code == 1
    assert f"{tmp_path}/elsewhere does not exist; the gateway creates it" in result.stdout
    assert "problem scheduler    workflow-scheduler.type 'sundial' is not installed" in result.stdout


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    result = doctor({}, "-c", str(tmp_path / "none.yaml"))

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"Error: {tmp_path}/none.yaml cannot be read")
