"""The jar of the operators: compiled from `java/` of a checkout, and carried by the wheel."""

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
"""The entry of the jar that has the hash of its sources."""
_PACKAGED = Path(__file__).parents[1] / NAME
_JAVA = Path(__file__).parents[3] / "java" / "freshtable"
# What our classes need of Iceberg's, whose jar is fetched only when Spark starts;
# the compiler reads them, the jar has none.
_STUBS = _JAVA.with_name("stubs")
_SPARK_JARS = Path(pyspark.__file__).parent / "jars"
_ALWAYS = (1980, 1, 1, 0, 0, 0)
_TIMEOUT_S = 300.0
# A compiler that runs for seconds is faster without the compiler of its own code that takes long.
_SHORT_RUN = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")

log = logging.getLogger(__name__)


def operator_jar(environ: Mapping[str, str], sources: Path = _JAVA, packaged: Path = _PACKAGED) -> Path:
    """Return the jar: of a checkout that of its *sources*, compiled unless it was before;
    else the one of the wheel.

    Spark does not start without it. Raises ConfigError, with the way to get it.
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
    """Return the jar of *sources* in the cache folder, where it is compiled once.

    Raises JavaMissing without a JDK, EngineError with what the compiler says.
    """
    source_hash = hash_of(sources)
    jar = _cached(environ, source_hash)
    if not jar.is_file():
        jar.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
            classes, part = Path(folder) / "classes", Path(folder) / NAME
            _compile(compiler(environ), sources, classes)
            _pack(classes, source_hash, part)
            # Another process may have been faster.
            part.replace(jar)
    return jar


def place_of(environ: Mapping[str, str], sources: Path = _JAVA, packaged: Path = _PACKAGED) -> Path:
    """Return where the jar is, or will be when Spark starts; compiles nothing."""
    return _cached(environ, hash_of(sources)) if sources.is_dir() else packaged


def is_checkout(sources: Path = _JAVA) -> bool:
    """Return whether the sources of the operators are here, which are compiled when Spark starts."""
    return sources.is_dir()


def _cached(environ: Mapping[str, str], source_hash: str) -> Path:
    return cache_dir(environ) / "operators" / f"{source_hash[:16]}.jar"


def hash_of(sources: Path) -> str:
    """Return a hash of what the jar depends on: the sources, and the version of Spark."""
    found = sha256(pyspark.__version__.encode())
    for file in _files(sources):
        found.update(f"\n{file.relative_to(sources).as_posix()}\n".encode() + file.read_bytes())
    for file in _files(_STUBS):
        found.update(f"\n{file.relative_to(_STUBS).as_posix()}\n".encode() + file.read_bytes())
    return found.hexdigest()


def _files(sources: Path) -> list[Path]:
    return sorted(sources.rglob("*.java"))


def compiler(environ: Mapping[str, str]) -> Path:
    """Return the `javac` that compiles the operators of a checkout; raises JavaMissing,
    with how to get one.
    """
    home = environ.get("JAVA_HOME")
    javac = shutil.which("javac", path=f"{home}/bin" if home else environ.get("PATH"))
    if javac is None:
        raise JavaMissing(
            f"There is no javac {'in ' + home if home else 'on this machine'}, which compiles the classes "
            f"that a gateway needs in Spark. Install a JDK {OLDEST} or newer (Debian, Ubuntu: apt install "
            "openjdk-17-jdk-headless), a JRE has none; or install the wheel, which has them compiled."
        )
    return Path(javac)


def _compile(javac: Path, sources: Path, classes: Path) -> None:
    options = [*_SHORT_RUN, "-Xlint:all,-classfile,-path", "-Werror", "--release", str(OLDEST)]
    command = [str(javac), *options, "-cp", f"{_SPARK_JARS}/*", "-sourcepath", str(_STUBS), "-implicit:none"]
    command += ["-d", str(classes), *map(str, _files(sources))]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise EngineError(f"{javac} cannot be run: {cause}.") from cause
    if ended.returncode:
        raise EngineError(f"{javac} does not compile the operators in {sources}: {ended.stderr.strip()}")


def _pack(classes: Path, source_hash: str, jar: Path) -> None:
    """Write the jar, whose bytes depend on its classes alone."""
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", _ALWAYS), "Manifest-Version: 1.0\n\n")
        archive.writestr(zipfile.ZipInfo(SOURCES_ENTRY, _ALWAYS), source_hash)
        for file in sorted(classes.rglob("*.class")):
            archive.writestr(
                zipfile.ZipInfo(file.relative_to(classes).as_posix(), _ALWAYS), file.read_bytes()
            )


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Compile the jar, and copy it to the place of the first argument, else into the package, for a wheel;
    return an exit code.
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
