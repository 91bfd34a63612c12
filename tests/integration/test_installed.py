"""What a user installs works: the wheels, with each of their extras, in environments
that have nothing else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from deploy.release import (
    JAR,
    ROOT,
    Installation,
    ReleaseFailed,
    alone,
    run,
    try_provider,
    try_statements,
)
from mt_core.spark.driver.operator_jar import SOURCES_ENTRY
from tests.support.gateway.own_process import FAST, WAIT_S, launch, ready_url, wait_until

FOLDERS = ("mt_core", "scheduler_plugins", "java")
FILES = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")
pytestmark = [pytest.mark.slow, pytest.mark.spark]

FIRST_CLICKS = """
CREATE TABLE lake.default.clicks (city STRING, n INT) USING iceberg;
CREATE TABLE lake.default.firsts (city STRING, n INT) USING iceberg;
INSERT INTO lake.default.clicks VALUES ('Rome', 1), ('Rome', 1);
SET 'execution.runtime-mode' = 'streaming';
INSERT INTO lake.default.firsts SELECT city, n FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY city ORDER BY now()) AS rn FROM lake.default.clicks) WHERE rn = 1;
"""
ONE = "SELECT 1 AS one"
FREE_PORT = "sql-gateway.endpoint.rest.port=0"
DRIVER = """
import sys
from mt_core.client import dbapi

with dbapi.connect(sys.argv[1]) as connection:
    query = "SELECT id, city, amount, weight FROM lake.default.orders ORDER BY id"
    cursor = connection.cursor().execute(query)
    print(cursor.fetchall()[1])
"""
SALES = """
CREATE TABLE lake.default.sold (city STRING, n INT) USING iceberg;
INSERT INTO lake.default.sold VALUES ('Rome', 1), ('Oslo', 2);
CREATE MATERIALIZED TABLE lake.default.sales WITH ('refresh.strategy' = 'incremental')
  FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS SELECT city, n * 2 AS n FROM lake.default.sold;
INSERT INTO lake.default.sold VALUES ('Rome', 5);
"""
DUE = """
import sys
from datetime import UTC, datetime
from mt_core.client.http import GatewayClient, Refresh

with GatewayClient(sys.argv[1]) as client:
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
    client.refresh(Refresh(identifier="lake.default.sales", is_periodic=True, schedule_time=now))
"""
CLIENTS = """
import sys
import pandas
import sqlalchemy
from mt_core.client import dbapi

engine = sqlalchemy.create_engine(sys.argv[1].replace("http", "freshtable") + "/lake/default")
print(pandas.read_sql("SELECT city, orders FROM revenue WHERE city = 'Oslo'", engine).to_dict("records"))
with dbapi.connect(sys.argv[1]) as connection:
    cursor = connection.cursor()
    print(cursor.execute("SELECT id FROM lake.default.orders").fetch_arrow().num_rows)
    print(len(cursor.execute("SELECT id FROM lake.default.orders").fetch_df()))
"""
REGISTRY = """
import sys
from mt_core.registry.database import connect

print(connect(sys.argv[1]).dialect.driver)
"""
METRICS = """
from mt_core.metrics import exposition, families, instruments

made = instruments.Instruments()
made.counter(families.EVENTS_DROPPED).inc()
print(exposition.exposition(exposition.Format.of(""), made.registry, "").decode())
"""
FLIGHTS = """
import sys
from pathlib import Path
from mt_core.demo.flights import write_files
from mt_core.demo.run import run_demo

print(write_files(Path(sys.argv[1])).path("flights").exists())
"""


def refusal(code: int, command: list[str | Path], folder: Path, environ: dict[str, str]) -> str:
    """Return the output of a command that is expected to fail with exit code *code*."""
    with pytest.raises(ReleaseFailed, match=f"failed with exit code {code}:") as failed:
        run(command, folder, environ)
    return str(failed.value)


def refused(code: int, installation: Installation, command: str, *arguments: str | Path) -> str:
    """Do the same as `refusal`, for a command of an installation."""
    return refusal(code, [installation.bin / command, *arguments], installation.bin, installation.environ)


def checkout(folder: Path) -> Path:
    """Return a copy of what this checkout is built from: a build leaves files in its sources."""
    ignored = shutil.ignore_patterns("__pycache__", "*.jar", "*.egg-info")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def without_jdk(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a machine that has the commands of this one, but no compiler of Java."""
    folder = tmp_path_factory.mktemp("commands")
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for command in place.iterdir() if place.is_dir() else ():
            if command.name != "javac" and not (folder / command.name).is_symlink():
                (folder / command.name).symlink_to(command)
    return alone() | {"PATH": str(folder), "JAVA_HOME": ""}


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the tools of a build, and without PySpark."""
    folder = tmp_path_factory.mktemp("builder")
    run([sys.executable, "-m", "venv", folder], folder, alone())
    run([folder / "bin" / "pip", "install", "--quiet", "build", "setuptools>=77"], folder, alone())
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def wheels(builder: Path, without_jdk: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel of both packages.

    As in `make wheel`, the jar is compiled first, and wheels are built from sdists; here without a JDK.
    """
    folder = tmp_path_factory.mktemp("wheels")
    main, dags = checkout(folder / "main"), shutil.copytree(ROOT / "dags", folder / "dags")
    run([sys.executable, "-m", "mt_core.spark.driver.operator_jar", main / JAR], ROOT, dict(os.environ))
    for source in (main, dags):
        run([builder, "-m", "build", "--no-isolation", "--outdir", folder, source], folder, without_jdk)
    return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What is built from a checkout without a JDK: its wheel, and where this is installed."""

    source: Path
    warnings: str
    wheel: Path
    site: Path


@pytest.fixture(scope="module")
def client(builder: Path, without_jdk: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Client:
    """The client that a machine without a JDK gets from a checkout in which earlier versions were built."""
    folder = tmp_path_factory.mktemp("client")
    source, site = checkout(folder / "checkout"), folder / "site"
    with zipfile.ZipFile(source / JAR, "w") as jar:
        jar.writestr(SOURCES_ENTRY, "the hash of earlier sources")
    (source / "build" / "lib" / "mt_core").mkdir(parents=True)
    (source / "build" / "lib" / "mt_core" / "removed.py").touch()
    built = subprocess.run(
        [builder, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, source],
        env=without_jdk,
        capture_output=True,
        text=True,
        check=True,
    )
    (wheel,) = folder.glob("*.whl")
    run(
        [builder, "-m", "pip", "install", "--no-deps", "--no-compile", "--target", site, wheel],
        folder,
        alone(),
    )
    return Client(source=source, warnings=built.stderr, wheel=wheel, site=site)


@pytest.fixture(scope="module")
def installation(wheels: Path) -> Installation:
    wheel = next(wheels.glob("freshtable-*.whl"))
    return Installation(wheels / "environment", wheel)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def gateway(installation: Installation, home: Path, without_jdk: dict[str, str]) -> Iterator[str]:
    """The URL of a gateway which runs with nothing but the extra `gateway`,
    where there is a JRE and no JDK.
    """
    options = [part for setting in FAST for part in ("-D", setting)]
    command = [str(installation.bin / "freshtable"), "gateway", "--home", str(home), *options]
    installation.install("gateway")
    process = launch(command, home / "stderr.txt", without_jdk)
    try:
        yield ready_url(process)
    finally:
        process.terminate()
        process.communicate(timeout=60)


def tracked(*paths: str) -> set[str]:
    return set(run(["git", "ls-files", *paths], ROOT, dict(os.environ)).split())


def test_the_wheel_has_every_file_of_the_package_and_the_jar(wheels: Path) -> None:
    jar = (wheels / "main" / JAR).read_bytes()

    with zipfile.ZipFile(next(wheels.glob("freshtable-*.whl"))) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
        packed_jar = wheel.read(JAR)

    assert packed == tracked("mt_core", "scheduler_plugins") | {JAR}
    assert packed_jar == jar


def test_the_sdist_has_what_the_wheel_is_built_from_and_the_jar(wheels: Path) -> None:
    with tarfile.open(next(wheels.glob("freshtable-*.tar.gz"))) as sdist:
        packed = {member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile()}

    added = {name for name in packed if name in ("PKG-INFO", "setup.cfg") or ".egg-info/" in name}
    assert packed - added == tracked(*FOLDERS, *FILES) | {JAR}


def test_the_airflow_package_has_every_file_its_license_and_no_tests(wheels: Path) -> None:
    with tarfile.open(next(wheels.glob("freshtable_airflow-*.tar.gz"))) as sdist:
        packed = {member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile()}

    with zipfile.ZipFile(next(wheels.glob("freshtable_airflow-*.whl"))) as wheel:
        installed = {f"dags/{name}" for name in wheel.namelist() if ".dist-info/" not in name}

    assert installed == tracked("dags/freshtable_airflow")
    assert {"LICENSE", "README.md", "freshtable_airflow/py.typed"} <= packed
    assert not [name for name in packed if name.startswith("tests/")]
    assert (ROOT / "dags" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_a_build_without_a_jdk_warns_and_packs_neither_a_jar_nor_a_file_of_an_earlier_build(
    client: Client,
) -> None:
    with zipfile.ZipFile(client.wheel) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}

    assert "warning: freshtable-operators.jar is not in this package" in client.warnings
    assert "Install a JDK 17 or newer" in client.warnings
    assert packed == tracked("mt_core", "scheduler_plugins")
    assert not (client.source / JAR).exists()


def test_an_editable_installation_compiles_nothing(builder: Path, tmp_path: Path) -> None:
    source, cache = checkout(tmp_path / "checkout"), tmp_path / "cache"
    install = [
        builder,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-build-isolation",
        "--prefix",
        tmp_path / "env",
    ]

    run([*install, "--editable", source], tmp_path, alone() | {"XDG_CACHE_HOME": str(cache)})

    assert list((tmp_path / "env").rglob("freshtable"))
    assert not (source / JAR).exists()
    assert not (cache / "freshtable").exists()


def test_the_base_alone_is_a_client_and_says_which_extra_a_gateway_needs(installation: Installation) -> None:
    installation.install()

    of_gateway = refused(1, installation, "freshtable", "gateway")
    of_demo = refused(1, installation, "freshtable", "demo")
    sql = ["sql", "--gateway", "http://127.0.0.1:9", "-e", "SELECT 1"]
    unreachable = refused(3, installation, "freshtable", *sql)

    assert "pip install '.[gateway]'" in of_gateway
    assert "pip install '.[demo]'" in of_demo
    assert "There is no gateway at http://127.0.0.1:9" in unreachable


def test_statements_and_a_refresh_work_with_the_extra_gateway_alone(
    installation: Installation, gateway: str
) -> None:
    try_statements(installation, "--gateway", gateway)

    assert installation.run("python", "-c", DRIVER, gateway) == "(2, 'Oslo', Decimal('5.50'), None)\n"


def test_the_page_with_its_scripts_and_styles_is_in_the_wheel(gateway: str) -> None:
    page = httpx.get(f"{gateway}/ui/", timeout=WAIT_S)
    addresses = re.findall(r'(?:href|src)="(/ui/static/[^"]+)"', page.text)
    answers = {
        address.rpartition("/")[2]: httpx.get(gateway + address, timeout=WAIT_S) for address in addresses
    }

    assert page.status_code == 200
    assert {"page.css", "page.js", "icon.svg"} <= set(answers)
    assert {answer.status_code for answer in answers.values()} == {200}


def test_a_small_change_is_computed_without_a_job_by_what_the_wheel_has(
    installation: Installation, gateway: str, home: Path
) -> None:
    sql = ["freshtable", "sql", "--gateway", gateway, "--format", "csv"]
    read = "SELECT city, n FROM lake.default.sales ORDER BY city"

    installation.run(*sql, "-e", SALES)
    installation.run("python", "-c", DUE, gateway)
    wait_until(lambda: "Rome,10" in installation.run(*sql, "-e", read), "the change is not shown")

    assert '"inline_plan"' in (home / "logs" / "gateway.log").read_text(encoding="utf-8")


def test_the_operators_of_streams_are_in_the_wheel_and_work_without_a_jdk(
    installation: Installation, gateway: str
) -> None:
    sql = ["freshtable", "sql", "--gateway", gateway, "--format", "csv"]

    installation.run(*sql, "-e", FIRST_CLICKS)
    rows = [*sql, "-e", "SELECT * FROM lake.default.firsts"]
    wait_until(lambda: "Rome" in installation.run(*rows), "the job writes no row")

    assert installation.run(*rows) == "city,n\nRome,1\n"


def test_metrics_need_the_extra_metrics(installation: Installation, gateway: str) -> None:
    without = httpx.get(f"{gateway}/metrics", timeout=WAIT_S)

    installation.install("gateway", "metrics")
    wired = installation.run("python", "-c", METRICS)

    assert (without.status_code, "pip install '.[metrics]'" in without.text) == (404, True)
    assert wired.startswith("# HELP freshtable_")


@pytest.mark.postgres
def test_a_registry_in_postgresql_opens_with_the_extra_postgres(
    installation: Installation, gateway: str, postgres_database: str
) -> None:
    without = refused(1, installation, "python", "-c", REGISTRY, postgres_database)

    installation.install("gateway", "postgres")

    assert "pip install '.[postgres]'" in without
    assert installation.run("python", "-c", REGISTRY, postgres_database) == "psycopg\n"


def test_pandas_sqlalchemy_and_arrow_read_rows_with_the_extra_client(
    installation: Installation, gateway: str
) -> None:
    installation.install("client")

    shown = installation.run("python", "-c", CLIENTS, gateway)

    assert shown == "[{'city': 'Oslo', 'orders': 2}]\n4\n4\n"


def test_the_demo_has_its_flights_with_the_extra_demo(installation: Installation, tmp_path: Path) -> None:
    installation.install("demo")

    assert installation.run("python", "-c", FLIGHTS, tmp_path) == "True\n"


def test_a_client_from_a_checkout_without_a_jdk_sends_statements_but_starts_no_gateway(
    client: Client, gateway: str, without_jdk: dict[str, str], tmp_path: Path
) -> None:
    # With the packages of this environment, which has what a gateway needs.
    freshtable, environ = [sys.executable, "-m", "mt_core"], without_jdk | {"PYTHONPATH": str(client.site)}
    home = ["--home", tmp_path / "home"]

    answer = run([*freshtable, "sql", "--gateway", gateway, "--format", "csv", "-e", ONE], tmp_path, environ)
    of_gateway = refusal(1, [*freshtable, "gateway", "-D", FREE_PORT, *home], tmp_path, environ)
    doctor = subprocess.run(
        [*freshtable, "doctor", *home], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )

    assert (answer, doctor.returncode) == ("one\n1\n", 1)
    for shown in (of_gateway, doctor.stdout):
        assert f"{client.site / JAR} is missing" in shown
        assert "Install a JDK 17 or newer" in shown
        assert "install the wheel of a release" in shown


@pytest.mark.airflow
def test_the_provider_of_the_airflow_wheel_is_found_by_airflow(wheels: Path, tmp_path: Path) -> None:
    wheel = next(wheels.glob("freshtable_airflow-*.whl"))

    try_provider(wheel.name.split("-")[1], wheel, ROOT / ".venv-airflow" / "bin" / "python", tmp_path)
