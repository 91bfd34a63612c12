"""The jar of the operators: compiled once for each state of its sources, and missed in words."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from mt_core.errors import ConfigError, EngineError, JavaMissing
from mt_core.spark.driver.operator_jar import (
    SOURCES_ENTRY,
    compiled,
    compiler,
    hash_of,
    is_current,
    main,
    operator_jar,
)

pytestmark = pytest.mark.processes

MISSING = r"freshtable-operators\.jar is missing.*a JDK 17 .*install Freshtable again.*the wheel of a release"

TEXT = "package freshtable; public final class Simple { public static int one() { return 1; } }"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "java"
    folder.mkdir()
    (folder / "Simple.java").write_text(TEXT)
    return folder


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def without_jdk(environ: dict[str, str], tmp_path: Path) -> dict[str, str]:
    return {**environ, "PATH": str(tmp_path), "JAVA_HOME": ""}


def test_sources_are_compiled_once_until_they_change(
    sources: Path, environ: dict[str, str], without_jdk: dict[str, str]
) -> None:
    first = compiled(environ, sources)

    again = compiled(without_jdk, sources)
    was_current = is_current(first, sources)
    (sources / "Simple.java").write_text(TEXT.replace("1", "2"))
    other = compiled(environ, sources)

    assert again == first
    assert other != first
    assert was_current
    assert not is_current(first, sources)
    assert is_current(other, sources)
    with zipfile.ZipFile(other) as archive:
        assert archive.read(SOURCES_ENTRY).decode() == hash_of(sources)
        assert archive.namelist() == ["META-INF/MANIFEST.MF", SOURCES_ENTRY, "freshtable/Simple.class"]


def test_what_does_not_compile_is_an_error_with_the_words_of_the_compiler(
    sources: Path, environ: dict[str, str]
) -> None:
    (sources / "Simple.java").write_text("package freshtable; class Simple { int one() { return nothing; } }")

    with pytest.raises(EngineError, match=r"Simple\.java:1: error: cannot find symbol"):
        compiled(environ, sources)

    assert not list(Path(environ["XDG_CACHE_HOME"]).rglob("*.jar"))


def test_a_machine_without_a_jdk_is_told_how_to_get_one(sources: Path, without_jdk: dict[str, str]) -> None:
    with pytest.raises(
        JavaMissing, match=r"There is no javac on this machine.*openjdk-17-jdk-headless.*install the wheel"
    ):
        compiled(without_jdk, sources)


def put_jdk(home: Path, version: str) -> None:
    """Put a `javac` into *home* that compiles as the one of this machine, under another *version*."""
    javac = home / "bin" / "javac"
    javac.parent.mkdir()
    shown, real = f'openjdk version "{version}" 2024-01-16', compiler(os.environ).program
    javac.write_text(
        f"#!/bin/sh\n[ $1 != -J-version ] || {{ echo '{shown}' >&2; exit; }}\nexec {real} \"$@\"\n"
    )
    javac.chmod(0o755)


def test_only_the_jdk_of_the_developers_refuses_a_warning(
    sources: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    (sources / "Simple.java").write_text("package freshtable; class Simple { java.util.List raw; }")
    put_jdk(tmp_path, "21.0.1")

    with pytest.raises(EngineError, match="warnings found and -Werror specified"):
        compiled(environ, sources)

    assert compiled(environ | {"JAVA_HOME": str(tmp_path)}, sources).is_file()


def test_a_jdk_that_is_too_old_counts_as_none(tmp_path: Path) -> None:
    put_jdk(tmp_path, "11.0.2")

    with pytest.raises(JavaMissing, match=r"javac is Java 11; Spark needs 17 or newer. Install a JDK 17"):
        compiler({"JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize("content", [None, b"", b"not a zip archive"])
def test_what_is_not_a_jar_is_not_current(content: bytes | None, sources: Path, tmp_path: Path) -> None:
    jar = tmp_path / "x.jar"
    if content is not None:
        jar.write_bytes(content)

    assert not is_current(jar, sources)


def test_the_command_ends_with_an_error_without_a_jdk(
    without_jdk: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([str(tmp_path / "x.jar")], without_jdk)

    assert code == 1
    assert "There is no javac on this machine" in capsys.readouterr().err
    assert not (tmp_path / "x.jar").exists()


def test_a_gateway_does_not_start_where_its_classes_cannot_be_compiled(
    sources: Path, without_jdk: dict[str, str]
) -> None:
    with pytest.raises(ConfigError, match=r"There is no javac on this machine.*install the wheel"):
        operator_jar(without_jdk, sources)


def test_a_gateway_does_not_start_where_its_classes_cannot_be_kept(
    sources: Path, environ: dict[str, str]
) -> None:
    Path(environ["XDG_CACHE_HOME"]).write_text("not a folder")

    with pytest.raises(ConfigError, match="The classes that a gateway needs in Spark were not compiled: "):
        operator_jar(environ, sources)


def test_an_installed_wheel_has_its_jar_beside_its_modules(
    without_jdk: dict[str, str], tmp_path: Path
) -> None:
    packaged, absent = tmp_path / "freshtable-operators.jar", tmp_path / "absent"

    with pytest.raises(ConfigError, match=MISSING):
        operator_jar(without_jdk, absent, packaged)
    packaged.touch()

    assert operator_jar(without_jdk, absent, packaged) == packaged
