"""Jars that tests need and the product does not: fetched once from Maven Central by Spark's own resolver,
and kept.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyspark

from mt_core.base.cache_folder import cache_dir
from mt_core.errors import ConfigError, MtError
from mt_core.spark.driver.jars import fetch_packages

Environ = Mapping[str, str]
SPARK_JARS = Path(pyspark.__path__[0]) / "jars"


def maven_jars(
    environ: Environ, name: str, packages: Sequence[str], excludes: Sequence[str] = ()
) -> list[Path]:
    """Return the jars of *packages*, from the folder *name* of the cache;
    raises ConfigError that says where to put them where nothing can be fetched."""
    folder = cache_dir(environ) / name
    conf = {"spark.jars.packages": ",".join(packages), "spark.jars.ivy": str(folder)}
    if excludes:
        conf["spark.jars.excludes"] = ",".join(excludes)
    with tempfile.TemporaryDirectory() as logs:
        return fetch_packages(packages, folder, Path(logs) / "spark.log", conf)


def ivy_files(environ: Environ, name: str, modules: Path) -> Path:
    """Return a folder of the cache with the artifacts that the Ivy file *modules* lists, fetched once.

    Spark's own setting for packages fetches only jars without a classifier. Raises ConfigError.
    """
    content = hashlib.sha256(modules.read_bytes()).hexdigest()[:16]
    folder = cache_dir(environ) / name / content
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        fetched, cache = (folder.with_name(f"{content}.{each}.{os.getpid()}") for each in ("files", "cache"))
        [ivy] = SPARK_JARS.glob("ivy-*.jar")
        command = ["java", "-jar", str(ivy), "-ivy", str(modules), "-cache", str(cache)]
        pattern = f"{fetched}/[artifact]-[revision](-[classifier]).[ext]"
        run = subprocess.run([*command, "-retrieve", pattern], capture_output=True, text=True)
        shutil.rmtree(cache, ignore_errors=True)
        if run.returncode != 0:
            raise ConfigError(f"Ivy could not fetch the files of {modules}: {run.stdout[-2000:]}{run.stderr}")
        fetched.replace(folder)
    return folder


def fetch(name: str, jars_of: Callable[[Environ], Sequence[Path]]) -> int:
    """Fetch the jars of *name* now, say where they are, and return the exit code of the process."""
    try:
        jars = jars_of(os.environ)
    except MtError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    sys.stdout.write(f"{name} jars: {len(jars)} in {jars[0].parent}\n")
    return 0
