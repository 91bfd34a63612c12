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
    """A program of a Java installation, such as the `java` that Spark runs, with its major version."""

    program: Path
    version: int


def check_java(environ: Mapping[str, str]) -> Path:
    """Return the `java` program that Spark will run.

    Raises JavaMissing, with installation advice, if there is none or it is too old.
    """
    return installed_java(environ).program


def installed_java(environ: Mapping[str, str]) -> Java:
    """Return the `java` program with its version; otherwise like `check_java`."""
    return with_version(_find(environ), "-version", ADVICE)


def with_version(program: Path, option: str, advice: str) -> Java:
    """Return the *program* of a Java installation with its version, which it prints with *option*.

    Raises JavaMissing, with *advice*, if it cannot be run or is too old.
    """
    try:
        process = subprocess.run(
            [str(program), option], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise JavaMissing(f"{program} cannot be run: {cause}. {advice}") from cause
    version = java_version(process.stderr)
    if version is None:
        raise JavaMissing(f"{program} {option} prints no version. {advice}")
    if version < OLDEST:
        raise JavaMissing(f"{program} is Java {version}; Spark needs {OLDEST} or newer. {advice}")
    return Java(program=program, version=version)


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
