"""The jars that the gateway downloads: Iceberg and the JDBC drivers of its catalog for Spark, those of
`freshtable jars add`, and WebJars.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.xerial:sqlite-jdbc:3.50.3.0",
    "org.postgresql:postgresql:42.7.7",
)
KAFKA = "kafka"
_ICEBERG = PACKAGES[0].rpartition(":")[2]
_AWS_BUNDLE = f"org.apache.iceberg:iceberg-aws-bundle:{_ICEBERG}"
# Modules of AWS's SDK that the bundle contains, and its bundle of all services, which has 600 MB.
_OF_AWS_BUNDLE = (
    "software.amazon.awssdk:annotations",
    "software.amazon.awssdk:auth",
    "software.amazon.awssdk:aws-core",
    "software.amazon.awssdk:bundle",
    "software.amazon.awssdk:http-client-spi",
    "software.amazon.awssdk:json-utils",
    "software.amazon.awssdk:metrics-spi",
    "software.amazon.awssdk:protocol-core",
    "software.amazon.awssdk:regions",
    "software.amazon.awssdk:s3",
    "software.amazon.awssdk:sdk-core",
    "software.amazon.awssdk:utils",
    "software.amazon.awssdk.crt:aws-crt",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3",
    # A faster TLS, which is off by default.
    "org.wildfly.openssl:wildfly-openssl",
)
# Modules that Spark has.
_OF_SPARK = (
    "commons-codec:commons-codec",
    "org.apache.httpcomponents:httpclient",
    "org.apache.httpcomponents:httpcore",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """Jars that `freshtable jars add` fetches on request.

    `size_mb` is their size, or None if it was not measured. Spark loads them when it starts, or a statement
    loads them if `is_on_demand`. `excludes` are modules that would be fetched with the packages, and that
    other jars contain.
    """

    packages: Sequence[str]
    purpose: str
    size_mb: int | None = None
    is_on_demand: bool = False
    excludes: Sequence[str] = ()


JAR_SETS: Mapping[str, JarSet] = {
    KAFKA: JarSet(
        packages=(
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
            "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.1",
            "org.apache.kafka:kafka-clients:3.9.1",
            "org.apache.commons:commons-pool2:2.12.1",
        ),
        purpose="the connector kafka",
        size_mb=10,
        is_on_demand=True,
    ),
    "aws": JarSet(packages=(_AWS_BUNDLE,), purpose="tables on S3", size_mb=69),
    # The versions are those of Hadoop in PySpark and of the SDK in the bundle.
    "s3a": JarSet(
        packages=(
            _AWS_BUNDLE,
            "org.apache.hadoop:hadoop-aws:3.4.2",
            "software.amazon.awssdk:s3-transfer-manager:2.54.17",
            # Hadoop uses it. The bundle has its successor, apache5-client.
            "software.amazon.awssdk:apache-client:2.54.17",
        ),
        purpose="tables on S3, and checkpoints and savepoints on s3a://",
        size_mb=70,
        excludes=_OF_AWS_BUNDLE + _OF_SPARK,
    ),
    "gcp": JarSet(
        packages=(f"org.apache.iceberg:iceberg-gcp-bundle:{_ICEBERG}",),
        purpose="tables on Google Cloud Storage",
        size_mb=64,
    ),
    "azure": JarSet(
        packages=(f"org.apache.iceberg:iceberg-azure-bundle:{_ICEBERG}",),
        purpose="tables on Azure Data Lake Storage",
    ),
}
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
    """Return the `spark.jars*` settings, including the user's in *conf* and the jar sets in *jars_dir*.

    They list either local files, or packages that Ivy must download.
    """
    jars = local_jars(jars_dir)
    paths = [*map(str, [*(jars or []), *jars_of_sets(jars_dir)]), conf.get("spark.jars")]
    files = ",".join(filter(None, paths))
    if jars is not None:
        return {"spark.jars": files}
    return {
        **({"spark.jars": files} if files else {}),
        "spark.jars.packages": ",".join(filter(None, [*PACKAGES, conf.get("spark.jars.packages")])),
        "spark.jars.ivy": conf.get("spark.jars.ivy", str(jars_dir)),
    }


def jars_of_sets(jars_dir: Path) -> list[Path]:
    """Return the jars in *jars_dir* from `freshtable jars add` that Spark loads at its start."""
    sets = [each for each in JAR_SETS.values() if not each.is_on_demand]
    return list(dict.fromkeys(jar for each in sets for jar in local_jars(jars_dir, each.packages) or []))


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


def add_jars(name: str, environ: Mapping[str, str], say: Callable[[str], None]) -> list[Path]:
    """Return the jars of a set, after downloading them to the jar folder if necessary.

    Tells *say* how much it downloads. Raises MtError.
    """
    jar_set = JAR_SETS.get(name)
    if jar_set is None:
        raise ConfigError(f"There is no set of jars '{name}'; the sets are {', '.join(JAR_SETS)}.")
    check_java(environ)
    jars_dir = default_jars_dir(environ)
    if local_jars(jars_dir, jar_set.packages) is None:
        size = f", {jar_set.size_mb} MB" if jar_set.size_mb else ""
        say(f"Fetching the jars of {name}{size}, for {jar_set.purpose}.")
    conf = {"spark.jars.packages": ",".join(jar_set.packages), "spark.jars.ivy": str(jars_dir)}
    if jar_set.excludes:
        conf["spark.jars.excludes"] = ",".join(jar_set.excludes)
    with tempfile.TemporaryDirectory() as folder:
        return fetch_packages(jar_set.packages, jars_dir, Path(folder) / "spark.log", conf)


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
