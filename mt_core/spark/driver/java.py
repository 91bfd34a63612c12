"""Finds the Java installation that Spark will use, and checks it before Spark is started."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mt_core.errors import JavaMissing

OLDEST = 17
ADVICE = (
    f"Install a JDK {OLDEST} or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) and set JAVA_HOME to it, or put `java` on the PATH."
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """The `java` program that Spark runs, and its major version."""

    program: Path
    version: int


def check_java(environ: Mapping[str, str]) -> Path:
    """Return the `java` program that Spark will run.

    Raises JavaMissing, with installation advice, if there is none or it is too old.
    """
    return installed_java(environ).program


def installed_java(environ: Mapping[str, str]) -> Java:
    """Return the `java` program that Spark will run, with its version. Raises the errors of `check_java`."""
    java = _find(environ)
    try:
        process = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise JavaMissing(f"{java} cannot be run: {cause}. {ADVICE}") from cause
    version = java_version(process.stderr)
    if version is None:
        raise JavaMissing(f"{java} -version prints no version. {ADVICE}")
    if version < OLDEST:
        raise JavaMissing(f"{java} is Java {version}; Spark needs {OLDEST} or newer. {ADVICE}")
    return Java(program=java, version=version)


def java_version(text: str) -> int | None:
    """Return the major version in the output *text* of `java -version`, or None if it has none."""
    match = _VERSION.search(text)
    return int(match[1]) if match else None


def _find(environ: Mapping[str, str]) -> Path:
    home = environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.exists():
            raise JavaMissing(f"JAVA_HOME is {home}, and there is no bin/java in it. {ADVICE}")
        return java
    path = shutil.which("java", path=environ.get("PATH"))
    if path is None:
        raise JavaMissing(f"There is no Java on this machine. {ADVICE}")
    return Path(path)
