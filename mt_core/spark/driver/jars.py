"""The jars that the gateway downloads: Iceberg and the JDBC drivers of its catalog for Spark, and WebJars."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark import SparkConf
from pyspark.sql import SparkSession

from mt_core.base.cache_folder import cache_dir
from mt_core.errors import ConfigError, EngineError, MtError
from mt_core.spark.driver.java import check_java
from mt_core.spark.driver.jvm_objects import static_member
from mt_core.spark.driver.process import end_process, launch_process
from mt_core.spark.driver.web_jars import WEB_JARS, JarLookup, WebJar, look_up

PACKAGES = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
    "org.xerial:sqlite-jdbc:3.50.3.0",
    "org.postgresql:postgresql:42.7.7",
)
CONNECTOR_PACKAGES: Mapping[str, Sequence[str]] = {
    "kafka": (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.1",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org.apache.commons:commons-pool2:2.12.1",
    )
}
"""Additional packages by connector, which are fetched only on request."""
JARS_VARIABLE = "FRESHTABLE_SPARK_JARS"
UNRESOLVED = re.compile("unresolved dependenc|download failed", re.IGNORECASE)
"""Matches the error of a JVM that could not download its packages."""


def default_jars_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder for jars: `FRESHTABLE_SPARK_JARS`, or `jars` in the cache folder."""
    chosen = environ.get(JARS_VARIABLE)
    return Path(chosen).expanduser() if chosen else cache_dir(environ) / "jars"


def places_of(jars_dir: Path, package: str) -> Sequence[Path]:
    """Return the paths in *jars_dir* at which the jar of *package* may be: copied there, or from Ivy."""
    group, artifact, version = package.split(":")
    file = f"{artifact}-{version}.jar"
    return jars_dir / file, jars_dir / "jars" / f"{group}_{file}"


def local_jars(jars_dir: Path, packages: Sequence[str] = PACKAGES) -> list[Path] | None:
    """Return the jars of *packages* in *jars_dir*, or None if any is missing.

    Jars that Ivy downloaded are found as well as jars that were copied there.
    """
    jars = []
    for package in packages:
        # An interrupted download leaves a file that is not a zip archive.
        places = (path for path in places_of(jars_dir, package) if path.is_file())
        jar = next((path for path in places if zipfile.is_zipfile(path)), None)
        if jar is None:
            return None
        jars.append(jar.absolute())
    return jars


def jar_conf(jars_dir: Path, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the `spark.jars*` settings, including the user's in *conf*.

    They list either local files, or packages that Ivy must download.
    """
    jars = local_jars(jars_dir)
    if jars is not None:
        return {"spark.jars": ",".join(filter(None, [*map(str, jars), conf.get("spark.jars")]))}
    return {
        "spark.jars.packages": ",".join(filter(None, [*PACKAGES, conf.get("spark.jars.packages")])),
        "spark.jars.ivy": conf.get("spark.jars.ivy", str(jars_dir)),
    }


def fetch_packages(
    packages: Sequence[str], jars_dir: Path, log_file: Path, conf: Mapping[str, str]
) -> list[Path]:
    """Return the jars of *packages*; download them first unless *jars_dir* contains all of them.

    A JVM with the settings in *conf* downloads them with Spark's own resolver. Raises ConfigError.
    """
    jars = local_jars(jars_dir, packages)
    if jars is None:
        jars_dir.mkdir(parents=True, exist_ok=True)
        try:
            settings = SparkConf(loadDefaults=False).setAll([("spark.master", "local"), *conf.items()])
            end_process(launch_process(settings, log_file))
        except EngineError as cause:
            raise missing(jars_dir, cause.message, packages) from cause
        jars = local_jars(jars_dir, packages)
    if jars is None:
        raise missing(jars_dir, "the resolver exited without downloading them", packages)
    return jars


def add_connector(name: str, environ: Mapping[str, str]) -> list[Path]:
    """Return the jars of a connector, after downloading them to the jar folder if necessary.

    Raises MtError.
    """
    packages = CONNECTOR_PACKAGES.get(name)
    if packages is None:
        raise ConfigError(
            f"No jars are known for a connector '{name}'; known connectors: {', '.join(CONNECTOR_PACKAGES)}."
        )
    check_java(environ)
    jars_dir = default_jars_dir(environ)
    conf = {"spark.jars.packages": ",".join(packages), "spark.jars.ivy": str(jars_dir)}
    with tempfile.TemporaryDirectory() as folder:
        return fetch_packages(packages, jars_dir, Path(folder) / "spark.log", conf)


def fetch_web_jars(jars_dir: Path, log_file: Path, jars: Sequence[WebJar] = WEB_JARS) -> None:
    """Download the pinned *jars* of the page unless *jars_dir* contains them. Raises ConfigError."""
    packages = [jar.package for jar in jars if lookup_in(jars_dir, jar).content is None]
    if packages:
        conf = {"spark.jars.packages": ",".join(packages), "spark.jars.ivy": str(jars_dir)}
        fetch_packages(packages, jars_dir, log_file, conf)
    for jar in jars:
        lookup = lookup_in(jars_dir, jar)
        if lookup.content is None:
            reasons = "; ".join(f"{path}: {reason}" for path, reason in lookup.refused.items())
            raise ConfigError(
                f"There is a jar {jar.package}, but not the one of this release: {reasons}. "
                "Delete the file, and repeat the command."
            )


def lookup_in(jars_dir: Path, jar: WebJar) -> JarLookup:
    """Return whether the pinned *jar* is in *jars_dir*."""
    return look_up(jar, places_of(jars_dir, jar.package))


def resolve(session: SparkSession, packages: Sequence[str], jars_dir: Path, conf: Mapping[str, str]) -> None:
    """Download *packages* into *jars_dir*, without their dependencies, in the JVM of *session*.

    The JVM does not load them. *conf* has the user's settings of the resolver. Raises Spark's errors.
    """
    settings_file = static_member(session, "scala.Option.apply")(conf.get("spark.jars.ivySettings"))
    static_member(session, "org.apache.spark.util.DependencyUtils.resolveMavenDependencies")(
        False, "", ",".join(packages), conf.get("spark.jars.repositories"), str(jars_dir), settings_file
    )


def missing(jars_dir: Path, detail: str, packages: Sequence[str] = PACKAGES) -> ConfigError:
    """Return the error for jars that could not be downloaded."""
    return ConfigError(
        f"Spark could not fetch its packages {', '.join(packages)}: {detail.rstrip('.')}. Put their jars "
        f"into {jars_dir}, or set spark.jars.ivySettings to a file with a repository that can be reached."
    )


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Download the jars into the folder given by the first argument, or into the default folder.

    Return an exit code.
    """
    jars_dir = Path(arguments[0]) if arguments else default_jars_dir(environ)
    try:
        check_java(environ)
        with tempfile.TemporaryDirectory() as folder:
            log_file = Path(folder) / "spark.log"
            jars = fetch_packages(PACKAGES, jars_dir, log_file, jar_conf(jars_dir, {}))
            sys.stdout.write(f"Spark jars: {len(jars)} in {jars[0].parent}\n")
            # In a second step, so that Spark has its jars even if the repository has no npm packages.
            fetch_web_jars(jars_dir, log_file)
            sys.stdout.write(f"Jars of the page: {len(WEB_JARS)} in {jars_dir}\n")
    except MtError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
