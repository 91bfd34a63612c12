"""The operator jar: compiled from `java/` in a checkout, or included in the wheel.

The build of the wheel (`java/build_backend.py`) imports this module where no dependency is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from mt_core.base.cache_folder import cache_dir
from mt_core.errors import ConfigError, EngineError, JavaMissing, MtError
from mt_core.spark.driver.java import OLDEST, Java, with_version

NAME = "freshtable-operators.jar"
SOURCES_ENTRY = "META-INF/freshtable-sources"
"""The jar entry with the hash of its sources."""
PACKAGED = Path(__file__).parents[1] / NAME
"""The jar of an installed wheel; in a checkout, the one that the build of a wheel compiles."""
_JAVA = Path(__file__).parents[3] / "java" / "freshtable"
# Iceberg's API as our classes use it, for the compiler only: Iceberg's jar is downloaded when Spark starts.
_STUBS = _JAVA.with_name("stubs")
_JDK = f"Install a JDK {OLDEST} or newer (Debian, Ubuntu: apt install openjdk-17-jdk-headless), not a JRE"
_ADVICE = f"{_JDK}; or install the wheel of a release, which includes the jar."
REINSTALL = (
    f"{_JDK}, and install Freshtable again from its sources; or install the wheel of a release, "
    "which includes the jar, with pip install --force-reinstall."
)
"""What to do about an installation without the jar."""
_ALWAYS = (1980, 1, 1, 0, 0, 0)
_TIMEOUT_S = 300.0
# javac runs for seconds only, too short for the JVM's C2 compiler to pay off.
_SHORT_RUN = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")
_STRICT = ("-Xlint:all,-classfile,-path", "-Werror")


def operator_jar(environ: Mapping[str, str], sources: Path = _JAVA, packaged: Path = PACKAGED) -> Path:
    """Return the jar that Spark needs to start.

    In a checkout it is compiled from *sources* if they have changed; otherwise it is the *packaged* one.
    Raises ConfigError with instructions.
    """
    if not sources.is_dir():
        if packaged.is_file():
            return packaged
        raise ConfigError(
            f"{packaged} is missing, which has the classes that a gateway needs in Spark: there was no JDK "
            f"when Freshtable was installed from its sources. {REINSTALL}"
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
    jar = _cached(environ, sources)
    if not jar.is_file():
        compile_jar(environ, jar, sources)
    return jar


def compile_jar(environ: Mapping[str, str], jar: Path, sources: Path = _JAVA) -> None:
    """Compile *sources* into *jar*; raises as `compiled` does."""
    javac = compiler(environ)
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
        classes, part = Path(folder) / "classes", Path(folder) / NAME
        _compile(javac, sources, classes)
        _pack(classes, hash_of(sources), part)
        # Atomic: another process may have written the same jar first.
        part.replace(jar)


def is_current(jar: Path = PACKAGED, sources: Path = _JAVA) -> bool:
    """Return whether *jar* was compiled from *sources* as they are now; False for an unreadable jar."""
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.read(SOURCES_ENTRY).decode() == hash_of(sources)
    except (OSError, KeyError, zipfile.BadZipFile):
        return False


def place_of(environ: Mapping[str, str], sources: Path = _JAVA, packaged: Path = PACKAGED) -> Path:
    """Return the path of the jar, which may not exist until Spark starts; compiles nothing."""
    return _cached(environ, sources) if sources.is_dir() else packaged


def is_checkout(sources: Path = _JAVA) -> bool:
    """Return whether this is a checkout, whose operators are compiled when Spark starts."""
    return sources.is_dir()


def _cached(environ: Mapping[str, str], sources: Path) -> Path:
    version, _ = _spark()
    return cache_dir(environ) / "operators" / f"{hash_of(sources)[:16]}-spark-{version}.jar"


def _spark() -> tuple[str, Path]:
    """Return the version of the installed PySpark and the folder of its jars."""
    try:
        import pyspark
    except ModuleNotFoundError as cause:
        raise ConfigError(
            f"{NAME} is compiled against the jars of PySpark, which is not installed."
        ) from cause
    return pyspark.__version__, Path(pyspark.__file__).parent / "jars"


def hash_of(sources: Path) -> str:
    """Return the hash of the sources and the stubs."""
    digest = sha256()
    for file in _files(sources):
        digest.update(f"\n{file.relative_to(sources).as_posix()}\n".encode() + file.read_bytes())
    for file in _files(_STUBS):
        digest.update(f"\n{file.relative_to(_STUBS).as_posix()}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def _files(sources: Path) -> list[Path]:
    return sorted(sources.rglob("*.java"))


def compiler(environ: Mapping[str, str]) -> Java:
    """Return the `javac` program; raises JavaMissing, with advice, if it is absent or too old."""
    home = environ.get("JAVA_HOME")
    javac = shutil.which("javac", path=f"{home}/bin" if home else environ.get("PATH"))
    if javac is None:
        raise JavaMissing(
            f"There is no javac {'in ' + home if home else 'on this machine'}, which compiles the classes "
            f"that a gateway needs in Spark. {_ADVICE}"
        )
    return with_version(Path(javac), "-J-version", _ADVICE)


def _compile(javac: Java, sources: Path, classes: Path) -> None:
    # A newer compiler has warnings that the developers, who use the oldest, have not seen.
    warnings = _STRICT if javac.version == OLDEST else ("-Xlint:none",)
    options = [*_SHORT_RUN, *warnings, "--release", str(OLDEST)]
    _, jars = _spark()
    command = [str(javac.program), *options, "-cp", f"{jars}/*", "-sourcepath", str(_STUBS), "-implicit:none"]
    command += ["-d", str(classes), *map(str, _files(sources))]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise EngineError(f"{javac.program} cannot be run: {cause}.") from cause
    if process.returncode:
        errors = process.stderr.strip()
        raise EngineError(f"{javac.program} cannot compile the operators in {sources}: {errors}")


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
    """Compile the jar and copy it to the path of the first argument, or into the package.

    Return an exit code.
    """
    target = Path(arguments[0]) if arguments else PACKAGED
    try:
        shutil.copyfile(compiled(environ), target)
    except MtError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    sys.stdout.write(f"Operators: {target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
