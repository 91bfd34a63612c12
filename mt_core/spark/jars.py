"""The jars that Spark needs besides its own: a table format and the databases of its catalog."""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from mt_core.errors import ConfigError, EngineError, MtError
from mt_core.spark.java import check_java
from mt_core.spark.process import end_process, launch_process

PACKAGES = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
    "org.xerial:sqlite-jdbc:3.50.3.0",
    "org.postgresql:postgresql:42.7.7",
)
JARS_VARIABLE = "FRESHTABLE_SPARK_JARS"


def default_jars_dir(environ: Mapping[str, str]) -> Path:
    """Return where the jars are kept when no setting says otherwise."""
    chosen = environ.get(JARS_VARIABLE)
    return Path(chosen).expanduser() if chosen else cache_dir(environ) / "jars"


def cache_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder of ours for what can be fetched again."""
    cache = environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "freshtable"


def local_jars(jars_dir: Path, packages: Sequence[str] = PACKAGES) -> list[Path] | None:
    """Return the jar of each of *packages*, or None unless *jars_dir* has all, put there by hand or by Ivy."""
    found = [_jar(jars_dir, package) for package in packages]
    jars = [jar for jar in found if jar is not None]
    return jars if len(jars) == len(packages) else None


def jar_conf(jars_dir: Path, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the `spark.jars*` settings, with the user's in *conf*: local files, or packages for Ivy to fetch."""
    jars = local_jars(jars_dir)
    if jars is not None:
        return {"spark.jars": _joined([str(jar) for jar in jars], conf.get("spark.jars"))}
    return {
        "spark.jars.packages": _joined(PACKAGES, conf.get("spark.jars.packages")),
        "spark.jars.ivy": conf.get("spark.jars.ivy", str(jars_dir)),
    }


def fetch(jars_dir: Path, log_file: Path) -> list[Path]:
    """Return the jars, fetched into *jars_dir* by Spark's own resolver unless they are there; raises ConfigError."""
    return fetch_packages(PACKAGES, jars_dir, log_file, jar_conf(jars_dir, {}))


def fetch_packages(packages: Sequence[str], jars_dir: Path, log_file: Path, conf: Mapping[str, str]) -> list[Path]:
    """Return the jar of each of *packages*, fetched by a JVM with the settings *conf* unless *jars_dir* has them all.

    Raises ConfigError.
    """
    jars = local_jars(jars_dir, packages)
    if jars is None:
        jars_dir.mkdir(parents=True, exist_ok=True)
        try:
            end_process(launch_process({"spark.master": "local", **conf}, log_file))
        except EngineError as cause:
            raise missing(jars_dir, cause.message, packages) from cause
        jars = local_jars(jars_dir, packages)
    if jars is None:
        raise missing(jars_dir, "the resolver ended without them", packages)
    return jars


def unresolved(reason: str) -> bool:
    """Return whether a JVM that ended with *reason* could not get its packages."""
    return "unresolved dependenc" in reason or "download failed" in reason.lower()


def missing(jars_dir: Path, detail: str, packages: Sequence[str] = PACKAGES) -> ConfigError:
    """Return the error for jars that could not be fetched."""
    return ConfigError(
        f"Spark could not fetch its packages {', '.join(packages)}: {detail.rstrip('.')}. "
        f"Put their jars into {jars_dir}, or set spark.jars.ivySettings to a file that names a repository within reach."
    )


def _jar(jars_dir: Path, package: str) -> Path | None:
    group, artifact, version = package.split(":")
    file = f"{artifact}-{version}.jar"
    for jar in (jars_dir / file, jars_dir / "jars" / f"{group}_{file}"):
        # A download that was cut off leaves a file that is no archive.
        if jar.is_file() and zipfile.is_zipfile(jar):
            return jar.absolute()
    return None


def _joined(ours: Sequence[str], users: str | None) -> str:
    return ",".join([*ours, *([users] if users else [])])


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Fetch the jars into the folder that is the first argument, else into the default one; return an exit code."""
    jars_dir = Path(arguments[0]) if arguments else default_jars_dir(environ)
    try:
        check_java(environ)
        with tempfile.TemporaryDirectory() as folder:
            jars = fetch(jars_dir, Path(folder) / "spark.log")
    except MtError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    sys.stdout.write(f"Spark jars: {len(jars)} in {jars[0].parent}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
