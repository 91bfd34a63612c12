"""A release of Freshtable, as `make release` makes it: version, changelog and packages of a commit.

All steps work in a clone of the checkout: there the version is set, the fragments of `changelog/` are moved
to CHANGELOG.md, the packages are built, and each is installed and tried. Only when every step has succeeded
are the changed files and the packages copied into the checkout, so a step that fails leaves the checkout as
it was. The checkout must be clean, because the clone contains only what is committed. The release changes
nothing in git: it prints the commands that do.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path

from mt_core.errors import JavaMissing
from mt_core.spark.driver.operator_jar import compiler

ROOT = Path(__file__).resolve().parents[1]
# Each has one line with the version of its package.
VERSIONED = ("mt_core/__init__.py", "dags/pyproject.toml")
JAR = "mt_core/spark/freshtable-operators.jar"
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_VERSION_LINE = re.compile(r'^((?:__)?version(?:__)? = )".*"$', re.MULTILINE)
RELEASED = re.compile(r"^## (\S+)", re.MULTILINE)

TRIAL = """
CREATE TABLE lake.default.orders (id BIGINT, city STRING, amount DECIMAL(10, 2), weight DOUBLE) USING iceberg;
INSERT INTO lake.default.orders VALUES (1, 'Rome', 10.00, 0.5), (2, 'Oslo', 5.50, NULL), (3, NULL, 7.25, 1.5);
CREATE MATERIALIZED TABLE lake.default.revenue FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL
  AS SELECT city, count(*) AS orders, sum(amount) AS revenue FROM lake.default.orders GROUP BY city;
INSERT INTO lake.default.orders VALUES (4, 'Oslo', 100.00, 2.5);
ALTER MATERIALIZED TABLE lake.default.revenue REFRESH;
"""
TRIAL_ROWS = "SELECT city, orders, revenue FROM lake.default.revenue ORDER BY city"
TRIAL_ANSWER = "city,orders,revenue\n,1,7.25\nOslo,2,105.50\nRome,1,10.00\n"
PROVIDER = """
import importlib, pkgutil
import freshtable_airflow
from airflow.providers_manager import ProvidersManager

for module in pkgutil.iter_modules(freshtable_airflow.__path__):
    importlib.import_module(f"freshtable_airflow.{module.name}")
print(freshtable_airflow.__file__, ProvidersManager().providers["freshtable-airflow"].version, end="")
"""


class ReleaseFailed(Exception):
    """The release was refused, or one of its steps failed."""


def check(version: str, root: Path, environ: Mapping[str, str]) -> None:
    """Raise ReleaseFailed if *version* cannot be released from the checkout at *root*."""
    check_version(version, (root / "CHANGELOG.md").read_text(encoding="utf-8"))
    if status := _changes(root):
        raise ReleaseFailed(f"The checkout has changes that are not committed; commit them:\n{status}")
    if not any((root / "changelog").glob("*.*.md")):
        raise ReleaseFailed("changelog/ has no fragments, so there is nothing to release.")
    try:
        compiler(environ)
    except JavaMissing as cause:
        raise ReleaseFailed(str(cause)) from cause


def _changes(root: Path) -> str:
    return run(["git", "status", "--porcelain"], root)


def check_version(version: str, changelog: str) -> None:
    """Raise ReleaseFailed if *version* is not a version, or not above those in the text *changelog*."""
    wanted = _numbers(version)
    if wanted is None:
        raise ReleaseFailed(f"VERSION={version} is not a version; write three numbers, such as 0.1.0.")
    newest = max((_numbers(each) or () for each in RELEASED.findall(changelog)), default=())
    if wanted <= newest:
        shown = ".".join(map(str, newest))
        raise ReleaseFailed(f"VERSION={version} is not above {shown}, the newest release in CHANGELOG.md.")


def _numbers(version: str) -> tuple[int, ...] | None:
    match = _VERSION.fullmatch(version)
    return tuple(map(int, match.groups())) if match else None


def set_version(version: str, root: Path) -> None:
    """Set the version of both packages in the checkout at *root*, and in the generated pages."""
    for name in VERSIONED:
        path = root / name
        text, lines = _VERSION_LINE.subn(rf'\g<1>"{version}"', path.read_text(encoding="utf-8"))
        if lines != 1:
            raise ReleaseFailed(f"{name} has {lines} lines with a version; it needs one.")
        path.write_text(text, encoding="utf-8")
    run([sys.executable, "docs/build.py"], root, os.environ | {"PYTHONPATH": str(root)})


def collate(version: str, day: date, root: Path) -> None:
    """Move the fragments of the checkout at *root* to its CHANGELOG.md, as the section of *version*."""
    run([sys.executable, "-m", "towncrier", "build", "--yes", "--version", version, "--date", str(day)], root)


def build(version: str, root: Path, dist: Path) -> list[Path]:
    """Build wheel and source distribution of both packages of *root* into *dist*, and return the files.

    Raises ReleaseFailed if a file is missing, or one of the main package lacks the operators' jar.
    """
    for package in (root, root / "dags"):
        run([sys.executable, "-m", "build", "--outdir", dist, package], root)
    names = [
        f"{package}-{version}{suffix}"
        for package in ("freshtable", "freshtable_airflow")
        for suffix in ("-py3-none-any.whl", ".tar.gz")
    ]
    if missing := [name for name in names if not (dist / name).is_file()]:
        raise ReleaseFailed(f"The build made no {', '.join(missing)}.")
    wheel, source = dist / names[0], dist / names[1]
    with zipfile.ZipFile(wheel) as packed, tarfile.open(source) as tar:
        contents = {wheel: packed.namelist(), source: [name.partition("/")[2] for name in tar.getnames()]}
    if lacking := [file.name for file, files in contents.items() if JAR not in files]:
        raise ReleaseFailed(f"{JAR} is missing in {', '.join(lacking)}.")
    return [dist / name for name in names]


class Installation:
    """An environment of its own in *folder*, into which *wheel* is installed, one extra after the other."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self._wheel, self.bin, self.environ = wheel, folder / "bin", alone()
        run([sys.executable, "-m", "venv", folder], folder.parent, self.environ)
        # Before Python 3.12, a new environment has setuptools; nothing may need it at run time.
        self.run("python", "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools")

    def install(self, *extras: str) -> None:
        wanted = f"[{','.join(extras)}]" if extras else ""
        # Python compiles the few modules that are used.
        self.run("python", "-m", "pip", "install", "--quiet", "--no-compile", f"{self._wheel}{wanted}")

    def run(self, command: str, *arguments: str | Path) -> str:
        """Run a command of the environment, and return its standard output.

        Raises ReleaseFailed, with the output, if it fails.
        """
        return run([self.bin / command, *arguments], self.bin, self.environ)


def alone() -> dict[str, str]:
    """Return the environment variables of this process without those that lead to the checkout."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def try_gateway(version: str, wheel: Path, folder: Path) -> None:
    """Install *wheel* with the extra `gateway` into an environment in *folder*, and refresh a table."""
    installation, home = Installation(folder / "environment", wheel), folder / "home"
    installation.install("gateway")
    _expect(f"freshtable {version}\n", installation.run("freshtable", "--version"))
    try:
        try_statements(installation, "--embedded", "--home", home)
    except ReleaseFailed:
        # What failed is more than that no gateway runs.
        with suppress(ReleaseFailed):
            installation.run("freshtable", "gateway", "stop", "--home", home)
        raise
    installation.run("freshtable", "gateway", "stop", "--home", home)


def try_statements(installation: Installation, *gateway: str | Path) -> None:
    """Create and refresh a table on the gateway that the options *gateway* select, and read it."""
    sql = ["sql", *gateway, "--format", "csv", "-e"]
    installation.run("freshtable", *sql, TRIAL)
    _expect(TRIAL_ANSWER, installation.run("freshtable", *sql, TRIAL_ROWS))


def try_provider(version: str, wheel: Path, python: Path, folder: Path) -> None:
    """Import all modules of *wheel* with Airflow's *python*, and have Airflow find the provider."""
    site = folder / "site"
    environ = os.environ | {"PYTHONPATH": str(site), "AIRFLOW_HOME": str(folder / "airflow")}
    # In front of the environment's own packages, which contain the checkout's in editable mode.
    run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel], folder, environ)
    expected = f"{site / 'freshtable_airflow' / '__init__.py'} {version}"
    _expect(expected, run([python, "-c", PROVIDER], folder, environ).rpartition("\n")[2])


def _expect(expected: str, answer: str) -> None:
    if answer != expected:
        raise ReleaseFailed(f"The installed package answered {answer!r} in place of {expected!r}.")


def publish(clone: Path, root: Path, packages: Sequence[Path]) -> None:
    """Copy what is changed in *clone*, and *packages*, into the checkout at *root*.

    Raises ReleaseFailed if the checkout has changed since it was cloned.
    """
    if run(["git", "rev-parse", "HEAD"], clone) != run(["git", "rev-parse", "HEAD"], root) or _changes(root):
        raise ReleaseFailed("The checkout was changed while the release was built; make it again.")
    run(["git", "add", "--all"], clone)
    changed = run(["git", "diff", "--cached", "--name-only", "--no-renames", "-z", "HEAD"], clone)
    for name in filter(None, changed.split("\0")):
        if (clone / name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(clone / name, root / name)
        else:
            (root / name).unlink()
    (root / "dist").mkdir(exist_ok=True)
    for package in packages:
        shutil.copy(package, root / "dist")


def run(command: Sequence[str | Path], folder: Path, environ: Mapping[str, str] | None = None) -> str:
    """Run a command in *folder*, and return its standard output.

    Raises ReleaseFailed, with the output, if it fails.
    """
    ended = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    if ended.returncode:
        shown = " ".join(map(str, command))
        raise ReleaseFailed(
            f"{shown}\nfailed with exit code {ended.returncode}:\n{ended.stdout}{ended.stderr}"
        )
    return ended.stdout


def release(version: str, root: Path = ROOT) -> None:
    """Release *version* from the checkout at *root*.

    Raises ReleaseFailed, and then leaves the checkout as it was.
    """
    check(version, root, os.environ)
    with tempfile.TemporaryDirectory(prefix="freshtable-release-") as temporary:
        folder = Path(temporary)
        clone = folder / "clone"
        run(["git", "clone", "--quiet", root, clone], folder)
        _say("Setting the version, and moving the fragments to CHANGELOG.md.")
        set_version(version, clone)
        collate(version, datetime.now(UTC).date(), clone)
        _say("Building the packages.")
        packages = build(version, clone, folder / "dist")
        wheel, _, airflow_wheel, _ = packages
        _say("Installing the wheels and trying them; the first time takes a few minutes.")
        try_gateway(version, wheel, folder)
        python = root / ".venv-airflow" / "bin" / "python"
        if python.exists():
            try_provider(version, airflow_wheel, python, folder)
        publish(clone, root, packages)
    _say(NEXT.format(version=version, files=" ".join(f"dist/{package.name}" for package in packages)))


NEXT = """
The packages of {version} are in dist/, and the checkout has its version and its changelog.
Read CHANGELOG.md, then run

  .venv/bin/python -m tests.releases.write dist {version}
  git add --all && git commit --message 'Release {version}'
  git tag --annotate v{version} --message 'Freshtable {version}'
  git push --follow-tags

and publish the packages (the first command keeps, for the tests of later releases, what this one stores):

  {files}"""


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Release the version that the command line names."""
    if len(sys.argv) != 2:
        sys.exit("Name the version: make release VERSION=0.1.0")
    try:
        release(sys.argv[1])
    except ReleaseFailed as refused:
        sys.exit(f"Nothing was released. {refused}")


if __name__ == "__main__":
    main()
