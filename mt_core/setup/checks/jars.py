"""Checks jars: what Spark always needs, the operator jar, the page's jars, and those that settings name or
require.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mt_core.errors import JavaMissing
from mt_core.model.finding import Finding
from mt_core.setup.machine import LAKE, Machine
from mt_core.spark.driver.conf import S3_FILES, needs_s3_files
from mt_core.spark.driver.jars import PACKAGES, default_jars_dir, jars_of_sets, local_jars, lookup_in
from mt_core.spark.driver.operator_jar import REINSTALL, compiler, is_checkout, place_of
from mt_core.spark.driver.web_jars import WEB_JARS, WebJar

SUBJECT = "jars"
FETCH_NOW = "python -m mt_core.spark.driver.jars fetches them now"
_CLASS_PATH = "spark.driver.extraClassPath"
_IO_IMPL = f"{LAKE}io-impl"
_AWS_BUNDLE = "iceberg-aws-bundle"
_STREAM_FOLDERS = ("execution.checkpointing.dir", "execution.checkpointing.savepoint-dir")
# Jars, given by a part of their names, that catalog URIs and warehouse schemes require.
DRIVERS: Mapping[str, str] = {
    "jdbc:mysql:": "mysql-connector",
    "jdbc:mariadb:": "mariadb-java-client",
    "jdbc:oracle:": "ojdbc",
    "jdbc:sqlserver:": "mssql-jdbc",
}
FILE_SYSTEMS: Mapping[str, str] = {
    "s3a": "hadoop-aws",
    "s3n": "hadoop-aws",
    "abfs": "hadoop-azure",
    "abfss": "hadoop-azure",
    "gs": "gcs-connector",
    "oss": "hadoop-aliyun",
}
# How to get jars that `freshtable jars add` fetches.
_WAYS_OUT = {_AWS_BUNDLE: "freshtable jars add aws", "hadoop-aws": "freshtable jars add s3a"}


def check(machine: Machine) -> list[Finding]:
    """Return the findings about all jars. Fetches and compiles nothing."""
    conf, environ = machine.spark, machine.environ
    # The server of a catalog says where tables are stored.
    warehouse = "" if machine.config.is_served_catalog else machine.config.warehouse
    jars_dir = default_jars_dir(environ)
    return [
        judge_packages(missing_packages(jars_dir), jars_dir),
        _operators(environ),
        *page_jars(jars_dir),
        *named_jars(conf),
        *needed_jars(
            _with_sets(conf, jars_dir), warehouse, {key: machine.config.text(key) for key in _STREAM_FOLDERS}
        ),
    ]


def _with_sets(conf: Mapping[str, str], jars_dir: Path) -> Mapping[str, str]:
    """Return *conf* with the jars that Spark loads because `freshtable jars add` fetched them."""
    named = [*map(str, jars_of_sets(jars_dir)), conf.get("spark.jars", "")]
    return {**conf, "spark.jars": ",".join(filter(None, named))}


def missing_packages(jars_dir: Path) -> list[str]:
    """Return the packages that Spark always needs but that are not in *jars_dir*."""
    return [package for package in PACKAGES if local_jars(jars_dir, [package]) is None]


def judge_packages(missing: list[str], jars_dir: Path) -> Finding:
    """Return a finding on whether Spark can start offline. A gateway fetches missing jars."""
    if not missing:
        return Finding.ok(SUBJECT, f"Iceberg and the drivers of its catalog are in {jars_dir}")
    names = ", ".join(package.split(":")[1] for package in missing)
    return Finding.note(
        SUBJECT,
        f"{jars_dir} does not have {names}; the gateway fetches them from Maven Central when it starts",
        FETCH_NOW,
    )


def _operators(environ: Mapping[str, str]) -> Finding:
    place = place_of(environ)
    if place.is_file():
        return Finding.ok(SUBJECT, f"the classes that the gateway needs in Spark are in {place}")
    if not is_checkout():
        return Finding.problem(
            SUBJECT, f"{place} is missing, which has the classes that the gateway needs in Spark", REINSTALL
        )
    try:
        javac = compiler(environ).program
    except JavaMissing as error:
        return Finding.problem(SUBJECT, error.message, "apt install openjdk-17-jdk-headless")
    return Finding.ok(SUBJECT, f"{javac} compiles the classes that the gateway needs in Spark when it starts")


def page_jars(jars_dir: Path, jars: Sequence[WebJar] = WEB_JARS) -> Iterator[Finding]:
    """Yield a problem for each wrong jar of the page, then a finding on whether jars are missing."""
    missing, wrong = [], False
    for jar in jars:
        lookup = lookup_in(jars_dir, jar)
        for path, reason in lookup.refused.items():
            wrong = True
            text = f"{path} is not the jar that this release needs for its page: {reason}"
            yield Finding.problem(SUBJECT, text, f"delete it; {FETCH_NOW}")
        if lookup.content is None and not lookup.refused:
            missing.append(jar.package.split(":")[1])
    if missing:
        yield Finding.note(
            SUBJECT,
            f"{jars_dir} does not have {', '.join(missing)}; the gateway fetches them from Maven Central "
            "while it runs, and its page does without them until then",
            FETCH_NOW,
        )
    elif not wrong:
        yield Finding.ok(SUBJECT, f"the JavaScript libraries of the page are in {jars_dir}")


def named_jars(conf: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each jar in `spark.jars`."""
    for text in _parts(conf.get("spark.jars", "")):
        uri = urlsplit(text)
        if uri.scheme not in ("", "file", "local"):
            yield Finding.note(SUBJECT, f"{text} is fetched by Spark and was not checked")
            continue
        path = Path(unquote(uri.path) if uri.scheme else text)
        if path.is_file() and zipfile.is_zipfile(path):
            yield Finding.ok(SUBJECT, f"{path} exists")
        else:
            state = "is not a jar" if path.exists() else "does not exist"
            yield Finding.problem(
                SUBJECT, f"{path} of spark.jars {state}", "put the jar there, or correct spark.jars"
            )


def needed_jars(
    conf: Mapping[str, str], warehouse: str, folders: Mapping[str, str] | None = None
) -> Iterator[Finding]:
    """Yield a problem for each driver or file system that settings require without naming its jar.

    *folders* are settings with folders that Spark accesses through Hadoop.
    """
    named = ",".join(conf.get(key, "") for key in ("spark.jars", "spark.jars.packages", _CLASS_PATH))
    for why, jar in chain(_needs(conf, warehouse), _needs_of_folders(folders or {})):
        if jar in named:
            continue
        text = f"{why} needs the jar {jar}, which no setting names"
        if conf.get(_CLASS_PATH):
            yield Finding.note(SUBJECT, f"{text}; {_CLASS_PATH} may contain it")
        else:
            yield Finding.problem(SUBJECT, text, _WAYS_OUT.get(jar, f"add {jar} to spark.jars"))


def _needs(conf: Mapping[str, str], warehouse: str) -> Iterator[tuple[str, str]]:
    for key, value in sorted(conf.items()):
        if not key.startswith("spark.sql.catalog."):
            continue
        jar = next((jar for start, jar in DRIVERS.items() if value.startswith(start)), None)
        if jar is not None:
            yield key, jar
        if value == S3_FILES:
            yield key, _AWS_BUNDLE
    if _IO_IMPL in conf:
        return
    scheme = urlsplit(warehouse).scheme.lower()
    if needs_s3_files(warehouse, conf):
        yield f"catalog.warehouse {warehouse}", _AWS_BUNDLE
    elif scheme in FILE_SYSTEMS or scheme == "s3":
        yield f"catalog.warehouse {warehouse}", FILE_SYSTEMS.get(scheme, FILE_SYSTEMS["s3a"])


def _needs_of_folders(folders: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, folder in folders.items():
        scheme = urlsplit(folder).scheme.lower()
        if scheme in FILE_SYSTEMS:
            yield f"{key} {folder}", FILE_SYSTEMS[scheme]


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
