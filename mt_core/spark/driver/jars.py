"""The jars that Spark needs besides its own: a table format and the databases of its catalog."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark import SparkConf

from mt_core.errors import ConfigError, EngineError, MtError
from mt_core.spark.driver.java import check_java
from mt_core.spark.driver.process import end_process, launch_process

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
"""What a connector needs that Spark does not have, by its name; fetched when somebody asks for it."""
JARS_VARIABLE = "FRESHTABLE_SPARK_JARS"
UNRESOLVED = re.compile("unresolved dependenc|download failed", re.IGNORECASE)
"""What the reason of a JVM that could not get its packages has in it."""


def default_jars_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder of the jars."""
    chosen = environ.get(JARS_VARIABLE)
    return Path(chosen).expanduser() if chosen else cache_dir(environ) / "jars"


def cache_dir(environ: Mapping[str, str]) -> Path:
    """Return the user's cache folder for what can be fetched again."""
    cache = environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "freshtable"


def local_jars(jars_dir: Path, packages: Sequence[str] = PACKAGES) -> list[Path] | None:
    """Return the jar of each of *packages*, or None unless *jars_dir* has all,
    put there by hand or by Ivy.
    """
    jars = []
    for package in packages:
        group, artifact, version = package.split(":")
        file = f"{artifact}-{version}.jar"
        paths = (jars_dir / file, jars_dir / "jars" / f"{group}_{file}")
        # A download that was cut off leaves a file that is no archive.
        jar = next((path for path in paths if path.is_file() and zipfile.is_zipfile(path)), None)
        if jar is None:
            return None
        jars.append(jar.absolute())
    return jars


def jar_conf(jars_dir: Path, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the `spark.jars*` settings, with the user's in *conf*:
    local files, or packages for Ivy to fetch.
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
    """Return the jar of each of *packages*, fetched by a JVM with the settings *conf*
    unless *jars_dir* has them all.

    The JVM uses Spark's own resolver. Raises ConfigError.
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
        raise missing(jars_dir, "the resolver ended without them", packages)
    return jars


def add_connector(name: str, environ: Mapping[str, str]) -> list[Path]:
    """Return the jars of a connector, fetched into the folder of the jars unless it has them;
    raises MtError.
    """
    packages = CONNECTOR_PACKAGES.get(name)
    if packages is None:
        raise ConfigError(
            f"There are no jars of a connector '{name}'; there are those of {', '.join(CONNECTOR_PACKAGES)}."
        )
    check_java(environ)
    jars_dir = default_jars_dir(environ)
    conf = {"spark.jars.packages": ",".join(packages), "spark.jars.ivy": str(jars_dir)}
    with tempfile.TemporaryDirectory() as folder:
        return fetch_packages(packages, jars_dir, Path(folder) / "spark.log", conf)


def missing(jars_dir: Path, detail: str, packages: Sequence[str] = PACKAGES) -> ConfigError:
    """Return the error for jars that could not be fetched."""
    return ConfigError(
        f"Spark could not fetch its packages {', '.join(packages)}: {detail.rstrip('.')}. Put their jars "
        f"into {jars_dir}, or set spark.jars.ivySettings to a file that names a repository within reach."
    )


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Fetch the jars into the folder that is the first argument, else into the default one;
    return an exit code.
    """
    jars_dir = Path(arguments[0]) if arguments else default_jars_dir(environ)
    try:
        check_java(environ)
        with tempfile.TemporaryDirectory() as folder:
            jars = fetch_packages(PACKAGES, jars_dir, Path(folder) / "spark.log", jar_conf(jars_dir, {}))
    except MtError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    sys.stdout.write(f"Spark jars: {len(jars)} in {jars[0].parent}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
