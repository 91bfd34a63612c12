"""The operator jar: compiled from `java/` in a checkout, or included in the wheel."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import pyspark

from mt_core.errors import ConfigError, EngineError, JavaMissing, MtError
from mt_core.spark.driver.jars import cache_dir
from mt_core.spark.driver.java import OLDEST

NAME = "freshtable-operators.jar"
SOURCES_ENTRY = "META-INF/freshtable-sources"
"""The jar entry with the hash of its sources."""
_PACKAGED = Path(__file__).parents[1] / NAME
_JAVA = Path(__file__).parents[3] / "java" / "freshtable"
# Iceberg's API as our classes use it, for the compiler only: Iceberg's jar is downloaded when Spark starts.
_STUBS = _JAVA.with_name("stubs")
_SPARK_JARS = Path(pyspark.__file__).parent / "jars"
_ALWAYS = (1980, 1, 1, 0, 0, 0)
_TIMEOUT_S = 300.0
# javac runs for seconds only, too short for the JVM's C2 compiler to pay off.
_SHORT_RUN = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")

log = logging.getLogger(__name__)


def operator_jar(environ: Mapping[str, str], sources: Path = _JAVA, packaged: Path = _PACKAGED) -> Path:
    """Return the jar that Spark needs to start.

    In a checkout it is compiled from *sources* if they have changed; otherwise it is the *packaged* one.
    Raises ConfigError with instructions.
    """
    if not sources.is_dir():
        if packaged.is_file():
            return packaged
        raise ConfigError(
            f"{packaged} is missing, which has the classes that a gateway needs in Spark: "
            "install the wheel again."
        )
    try:
        return compiled(environ, sources)
    except ConfigError:
        raise
    except (MtError, OSError) as cause:
        raise ConfigError(f"The classes that a gateway needs in Spark were not compiled: {cause}") from cause


def compiled(environ: Mapping[str, str], sources: Path = _JAVA) -> Path:
    """Return the jar of *sources* in the cache folder; compile it there if it is missing.

    Raises JavaMissing without a JDK, and EngineError with the compiler's output.
    """
    source_hash = hash_of(sources)
    jar = _cached(environ, source_hash)
    if not jar.is_file():
        jar.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
            classes, part = Path(folder) / "classes", Path(folder) / NAME
            _compile(compiler(environ), sources, classes)
            _pack(classes, source_hash, part)
            # Atomic: another process may have written the same jar first.
            part.replace(jar)
    return jar


def place_of(environ: Mapping[str, str], sources: Path = _JAVA, packaged: Path = _PACKAGED) -> Path:
    """Return the path of the jar, which may not exist until Spark starts; compiles nothing."""
    return _cached(environ, hash_of(sources)) if sources.is_dir() else packaged


def is_checkout(sources: Path = _JAVA) -> bool:
    """Return whether this is a checkout, whose operators are compiled when Spark starts."""
    return sources.is_dir()


def _cached(environ: Mapping[str, str], source_hash: str) -> Path:
    return cache_dir(environ) / "operators" / f"{source_hash[:16]}.jar"


def hash_of(sources: Path) -> str:
    """Return the hash of the sources, the stubs and Spark's version."""
    digest = sha256(pyspark.__version__.encode())
    for file in _files(sources):
        digest.update(f"\n{file.relative_to(sources).as_posix()}\n".encode() + file.read_bytes())
    for file in _files(_STUBS):
        digest.update(f"\n{file.relative_to(_STUBS).as_posix()}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def _files(sources: Path) -> list[Path]:
    return sorted(sources.rglob("*.java"))


def compiler(environ: Mapping[str, str]) -> Path:
    """Return the `javac` program; raises JavaMissing with installation advice."""
    home = environ.get("JAVA_HOME")
    javac = shutil.which("javac", path=f"{home}/bin" if home else environ.get("PATH"))
    if javac is None:
        raise JavaMissing(
            f"There is no javac {'in ' + home if home else 'on this machine'}, which compiles the classes "
            f"that a gateway needs in Spark. Install a JDK {OLDEST} or newer (Debian, Ubuntu: apt install "
            "openjdk-17-jdk-headless), not a JRE; or install the wheel, which includes the compiled classes."
        )
    return Path(javac)


def _compile(javac: Path, sources: Path, classes: Path) -> None:
    options = [*_SHORT_RUN, "-Xlint:all,-classfile,-path", "-Werror", "--release", str(OLDEST)]
    command = [str(javac), *options, "-cp", f"{_SPARK_JARS}/*", "-sourcepath", str(_STUBS), "-implicit:none"]
    command += ["-d", str(classes), *map(str, _files(sources))]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise EngineError(f"{javac} cannot be run: {cause}.") from cause
    if process.returncode:
        raise EngineError(f"{javac} cannot compile the operators in {sources}: {process.stderr.strip()}")


def _pack(classes: Path, source_hash: str, jar: Path) -> None:
    """Write a reproducible jar: its bytes depend only on the classes."""
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", _ALWAYS), "Manifest-Version: 1.0\n\n")
        archive.writestr(zipfile.ZipInfo(SOURCES_ENTRY, _ALWAYS), source_hash)
        for file in sorted(classes.rglob("*.class")):
            archive.writestr(
                zipfile.ZipInfo(file.relative_to(classes).as_posix(), _ALWAYS), file.read_bytes()
            )


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Compile the jar and copy it to the path of the first argument, or into the package for a wheel.

    Return an exit code.
    """
    target = Path(arguments[0]) if arguments else _PACKAGED
    try:
        shutil.copyfile(compiled(environ), target)
    except MtError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    sys.stdout.write(f"Operators: {target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
