from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from zipfile import ZipFile

import pytest

from mt_core.app.page_libraries import fetch_libraries
from mt_core.errors import ConfigError
from mt_core.spark.driver.conf import DriverSettings
from mt_core.spark.driver.jars import (
    PACKAGES,
    default_jars_dir,
    fetch_web_jars,
    jar_conf,
    local_jars,
    main,
    places_of,
)
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.driver.web_jars import WEB_JARS, WebJar, WebJarFiles, look_up

CONTENT = {"dist/tool.min.js": b"tool()", "dist/tool.css": b"p {}", "dist/unused.js": b"unused()"}
FILES = {"tool.js": "dist/tool.min.js", "tool.css": "dist/tool.css"}


def write_jar(path: Path, content: dict[str, bytes] = CONTENT) -> str:
    """Write the WebJar tool:1.2 and return its SHA-256."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with ZipFile(path, "w") as archive:
        for name, text in content.items():
            archive.writestr(f"META-INF/resources/webjars/tool/1.2/{name}", text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Where a jar is that was copied into the folder."""
    return tmp_path / "tool-1.2.jar"


@pytest.fixture
def downloaded(tmp_path: Path) -> Path:
    """Where Spark's resolver writes the jar."""
    return tmp_path / "jars" / "org.webjars.npm_tool-1.2.jar"


def tool(sha256: str) -> WebJar:
    return WebJar(package="org.webjars.npm:tool:1.2", sha256=sha256, files=FILES)


def files(tmp_path: Path, jar: WebJar) -> WebJarFiles:
    return WebJarFiles(partial(places_of, tmp_path), [jar])


def settings_in(folder: Path) -> DriverSettings:
    return DriverSettings(catalog_url="jdbc:sqlite:file:/c", warehouse="/w", jars_dir=folder, log_dir=folder)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize("place", ["copied", "downloaded"])
def test_the_files_of_a_pinned_jar_are_read_by_their_names(
    tmp_path: Path, place: str, request: pytest.FixtureRequest
) -> None:
    libraries = files(tmp_path, tool(write_jar(request.getfixturevalue(place))))

    assert libraries.file("tool.css") == b"p {}"
    assert libraries.file("tool.js") == b"tool()"
    assert libraries.names() == {"tool.js", "tool.css"}
    assert libraries.file("unused.js") is None
    assert libraries.missing() == ()


def test_a_jar_with_another_hash_is_refused_with_a_warning_that_names_it(
    tmp_path: Path, copied: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sha256 = write_jar(copied, {**CONTENT, "dist/tool.min.js": b"steal()"})
    libraries = files(tmp_path, tool("0" * 64))

    assert libraries.names() == frozenset()
    assert libraries.file("tool.js") is None
    assert [jar.package for jar in libraries.missing()] == ["org.webjars.npm:tool:1.2"]
    assert warnings(caplog) == [
        f"The page does without tool.css, tool.js: {copied} is not used, "
        f"because its SHA-256 is {sha256} instead of {'0' * 64}."
    ]


def test_a_refused_jar_is_read_again_once_it_is_replaced(
    tmp_path: Path, copied: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = write_jar(copied)
    write_jar(copied, {"dist/tool.min.js": b"steal()"})
    libraries = files(tmp_path, tool(good))
    before = libraries.names()

    write_jar(copied)

    assert (before, libraries.names()) == (frozenset(), FILES.keys())
    assert len(warnings(caplog)) == 1


def test_a_downloaded_jar_is_used_although_a_wrong_one_was_copied(
    tmp_path: Path, copied: Path, downloaded: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_jar(copied, {"dist/tool.min.js": b"steal()"})
    libraries = files(tmp_path, tool(write_jar(downloaded)))

    assert libraries.file("tool.js") == b"tool()"
    assert [str(copied) in text for text in warnings(caplog)] == [True]


def test_a_missing_jar_is_found_after_its_download_without_a_warning(
    tmp_path: Path, downloaded: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sha256 = write_jar(downloaded)
    downloaded.unlink()
    libraries = files(tmp_path, tool(sha256))
    before = libraries.names()

    write_jar(downloaded)

    assert (before, libraries.names()) == (frozenset(), FILES.keys())
    assert warnings(caplog) == []


def test_the_rest_of_an_interrupted_download_counts_as_missing(
    tmp_path: Path, downloaded: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sha256 = write_jar(downloaded)
    downloaded.write_bytes(downloaded.read_bytes()[:100])

    lookup = look_up(tool(sha256), places_of(tmp_path, "org.webjars.npm:tool:1.2"))

    assert (lookup.content, lookup.refused) == (None, {})


def test_files_that_were_read_stay_as_they_are_when_their_jar_changes(tmp_path: Path, copied: Path) -> None:
    libraries = files(tmp_path, tool(write_jar(copied)))
    before = libraries.file("tool.js")

    write_jar(copied, {"dist/tool.min.js": b"steal()"})

    assert (before, libraries.file("tool.js")) == (b"tool()", b"tool()")


def test_a_jar_that_cannot_be_read_is_named(copied: Path) -> None:
    copied.mkdir()

    lookup = look_up(tool("0" * 64), [copied])

    assert (lookup.content, lookup.refused) == (None, {copied: "it cannot be read (Is a directory)"})


def test_a_jar_of_the_page_with_another_hash_is_neither_used_nor_replaced_by_the_command(
    tmp_path: Path, copied: Path
) -> None:
    write_jar(copied)

    with pytest.raises(ConfigError) as refusal:
        fetch_web_jars(tmp_path, tmp_path / "spark.log", [tool("0" * 64)])

    assert refusal.value.message.startswith(
        f"There is a jar org.webjars.npm:tool:1.2, but not the one of this release: {copied}: its SHA-256 is "
    )
    assert refusal.value.message.endswith("Delete the file, and repeat the command.")


def test_jars_of_the_page_that_are_there_need_no_network(tmp_path: Path, copied: Path) -> None:
    fetch_web_jars(tmp_path, tmp_path / "spark.log", [tool(write_jar(copied))])

    assert list(tmp_path.iterdir()) == [copied]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment with a Java that can only say its version."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n", encoding="ascii")
    java.chmod(0o755)
    return {"JAVA_HOME": str(tmp_path / "jdk")}


def test_the_command_says_where_the_jars_of_spark_and_of_the_page_are(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = default_jars_dir(os.environ)

    code = main([str(folder)], environ)

    said = capsys.readouterr()
    path = re.escape(str(folder))
    assert (code, said.err) == (0, "")
    assert re.fullmatch(rf"Spark jars: 3 in {path}\S*\nJars of the page: 3 in {path}\n", said.out)


def test_the_command_fails_naming_a_wrong_jar_of_the_page(
    environ: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in [*PACKAGES, *(jar.package for jar in WEB_JARS)]:
        _, artifact, version = package.split(":")
        write_jar(tmp_path / f"{artifact}-{version}.jar")

    code = main([str(tmp_path)], environ)

    said = capsys.readouterr()
    assert (code, said.out) == (1, f"Spark jars: 3 in {tmp_path}\n")
    assert f"{tmp_path}/htmx.org-2.0.8.jar: its SHA-256 is " in said.err


def test_spark_does_not_load_the_jars_of_the_page(tmp_path: Path) -> None:
    for package in [*PACKAGES, *(jar.package for jar in WEB_JARS)]:
        _, artifact, version = package.split(":")
        write_jar(tmp_path / f"{artifact}-{version}.jar")

    with_jars, without = jar_conf(tmp_path, {}), jar_conf(tmp_path / "empty", {})

    assert with_jars == {"spark.jars": ",".join(map(str, local_jars(tmp_path) or []))}
    assert without["spark.jars.packages"] == ",".join(PACKAGES)
    assert not any(
        "webjars" in value or "htmx" in value for value in [*with_jars.values(), *without.values()]
    )


def test_the_pinned_jars_have_the_files_of_the_page() -> None:
    libraries = WebJarFiles(partial(places_of, default_jars_dir(os.environ)))

    missing = [jar.package for jar in libraries.missing()]

    assert missing == [], "run python -m mt_core.spark.driver.jars"
    assert all(libraries.file(name) for name in libraries.names())
    assert libraries.names() == {
        "htmx.js",
        "uplot.js",
        "uplot.css",
        "codemirror.js",
        "codemirror.css",
        "codemirror-sql.js",
        "codemirror-hint.js",
        "codemirror-hint.css",
        "codemirror-placeholder.js",
    }


def test_two_jars_have_no_file_with_the_same_name() -> None:
    names: Sequence[str] = [name for jar in WEB_JARS for name in jar.files]

    assert sorted(set(names)) == sorted(names)


def test_a_gateway_that_stops_meanwhile_does_not_warn_about_its_libraries(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    libraries = files(tmp_path, tool("0" * 64))

    with caplog.at_level(logging.INFO):
        fetch_libraries(libraries, SparkDriver(settings_in(tmp_path)), settings_in(tmp_path))

    assert warnings(caplog) == []
    assert [record.getMessage() for record in caplog.records] == [
        "no libraries of the page: Spark is not running: the gateway is shutting down or was not started."
    ]


def test_libraries_that_are_there_are_not_downloaded(
    tmp_path: Path, copied: Path, caplog: pytest.LogCaptureFixture
) -> None:
    libraries = files(tmp_path, tool(write_jar(copied)))

    with caplog.at_level(logging.INFO):
        fetch_libraries(libraries, SparkDriver(settings_in(tmp_path)), settings_in(tmp_path))

    assert caplog.records == []
