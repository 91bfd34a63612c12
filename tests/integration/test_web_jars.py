"""Jars of the page that Spark's JVM downloads for a running gateway, from a repository in a local folder."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from zipfile import ZipFile

import pytest

from mt_core.app.page_libraries import fetch_libraries
from mt_core.spark.driver.jars import local_jars, places_of, resolve
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.driver.web_jars import WebJar, WebJarFiles

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PACKAGE = "org.webjars.npm:tool:1.2"
JAR = "repository/org/webjars/npm/tool/1.2/tool-1.2.jar"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>org.webjars.npm</groupId><artifactId>tool</artifactId>
<version>1.2</version><dependencies><dependency><groupId>org.webjars.npm</groupId><artifactId>other</artifactId>
<version>1.0</version></dependency></dependencies></project>
"""
IVY = """<ivysettings><settings defaultResolver="folder"/><resolvers>
<ibiblio name="folder" m2compatible="true" root="{root}"/></resolvers></ivysettings>
"""


@pytest.fixture
def repository(tmp_path: Path) -> dict[str, str]:
    """The settings that name a Maven repository with one package, whose dependency it does not have."""
    jar = tmp_path / JAR
    jar.parent.mkdir(parents=True)
    jar.with_suffix(".pom").write_text(POM)
    with ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/resources/webjars/tool/1.2/tool.js", "tool()")
    file = tmp_path / "ivysettings.xml"
    file.write_text(IVY.format(root=(tmp_path / "repository").as_uri()))
    return {"spark.jars.ivySettings": str(file)}


def test_a_running_gateway_downloads_a_jar_of_the_page_that_spark_does_not_load(
    spark_driver: SparkDriver, repository: dict[str, str], tmp_path: Path
) -> None:
    jars_dir = tmp_path / "jars of the gateway"

    with spark_driver.translating():
        resolve(spark_driver.session, [PACKAGE], jars_dir, repository)

    assert local_jars(jars_dir, [PACKAGE]) == [jars_dir / "jars" / "org.webjars.npm_tool-1.2.jar"]
    with spark_driver.translating():
        listed = spark_driver.session.sparkContext._jsc.sc().listJars().mkString(",")
    assert "tool" not in listed


def test_the_page_has_its_libraries_when_the_gateway_has_downloaded_them(
    spark_driver: SparkDriver, repository: dict[str, str], tmp_path: Path
) -> None:
    settings = replace(spark_driver.settings, jars_dir=tmp_path / "jars", spark_conf=repository)
    sha256 = hashlib.sha256((tmp_path / JAR).read_bytes()).hexdigest()
    jar = WebJar(package=PACKAGE, sha256=sha256, files={"tool.js": "tool.js"})
    libraries = WebJarFiles(partial(places_of, settings.jars_dir), [jar])
    before = libraries.names()

    fetch_libraries(libraries, spark_driver, settings)

    assert (before, libraries.names()) == (frozenset(), {"tool.js"})
    assert libraries.file("tool.js") == b"tool()"


def test_a_library_that_no_repository_has_is_named_in_a_warning(
    spark_driver: SparkDriver, repository: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = replace(spark_driver.settings, jars_dir=tmp_path / "jars", spark_conf=repository)
    jar = WebJar(package="org.webjars.npm:none:1.0", sha256="0" * 64, files={"none.js": "none.js"})
    libraries = WebJarFiles(partial(places_of, settings.jars_dir), [jar])

    fetch_libraries(libraries, spark_driver, settings)

    [warning] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.startswith(f"The page does without none until their jars are in {tmp_path}/jars; ")
    assert "org.webjars.npm#none;1.0: not found" in warning
    assert libraries.names() == frozenset()
