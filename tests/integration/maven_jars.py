"""Jars that tests need and the product does not: fetched once from Maven Central by Spark's own resolver,
and kept.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mt_core.base.cache_folder import cache_dir
from mt_core.errors import MtError
from mt_core.spark.driver.jars import fetch_packages

Environ = Mapping[str, str]


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


def fetch(name: str, jars_of: Callable[[Environ], Sequence[Path]]) -> int:
    """Fetch the jars of *name* now, say where they are, and return the exit code of the process."""
    try:
        jars = jars_of(os.environ)
    except MtError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    sys.stdout.write(f"{name} jars: {len(jars)} in {jars[0].parent}\n")
    return 0
