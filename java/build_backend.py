"""The build of the package `freshtable` (PEP 517): that of setuptools, with the operators' jar.

Wheels and sdists contain the jar. A build compiles it unless the package already has the jar of these very
sources, as in an sdist: a wheel is built from an sdist without a JDK and without PySpark. A build from a
checkout without a JDK succeeds with a warning: its package is a client, whose gateway does not start. An
editable installation is built without the jar, because in a checkout the gateway compiles it.
"""

from __future__ import annotations

import os
import shlex
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from setuptools import build_meta

from mt_core.errors import JavaMissing
from mt_core.spark.driver.operator_jar import PACKAGED, compile_jar, compiler, is_current

Settings = dict[str, Any] | None
_OPTIONS = "--global-option"

build_editable = build_meta.build_editable
get_requires_for_build_editable = build_meta.get_requires_for_build_editable
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable
prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """Return `pyspark`, whose jars the compiler reads, if the build compiles; otherwise nothing."""
    if is_current():
        return []
    try:
        compiler(os.environ)
    except JavaMissing:
        return []
    facts = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    gateway = facts["project"]["optional-dependencies"]["gateway"]
    return [requirement for requirement in gateway if requirement.startswith("pyspark")]


get_requires_for_build_sdist = get_requires_for_build_wheel


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel, with the jar; nothing of an earlier build gets into it."""
    _renew_jar()
    settings = config_settings or {}
    given = settings.get(_OPTIONS) or []
    options = shlex.split(given) if isinstance(given, str) else given
    # In its usual folder, setuptools would also pack what an earlier build left there.
    with TemporaryDirectory() as folder:
        settings = {**settings, _OPTIONS: [*options, "build", "--build-base", folder]}
        return str(build_meta.build_wheel(wheel_directory, settings, metadata_directory))


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Build the sdist, with the jar and its sources."""
    _renew_jar()
    return str(build_meta.build_sdist(sdist_directory, config_settings))


def _renew_jar() -> None:
    """Compile the jar if it is missing or older than its sources; without a JDK, remove it with a warning."""
    if is_current():
        return
    PACKAGED.unlink(missing_ok=True)
    try:
        compile_jar(os.environ, PACKAGED)
    except JavaMissing as error:
        sys.stderr.write(
            f"warning: {PACKAGED.name} is not in this package, which is a client. {error.message}\n"
        )
