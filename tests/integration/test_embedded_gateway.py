"""A real embedded gateway: it stays for what is activated, refuses what would end it,
and ends after its last client.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from mt_core.client.dbapi import Connection, connect
from mt_core.client.exceptions import Error
from mt_core.client.home import holder_of
from mt_core.terminal.embedded import EmbeddedGateway
from tests.support.gateway.own_process import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

START_S = 180.0
FUNCTION = "CREATE FUNCTION {name} AS '{name}.f' LANGUAGE PYTHON USING FILE '{file}'"
MODULES = {
    "exits": "import os\nos._exit(3)\n",
    "crashes": "import ctypes\nctypes.string_at(0)\n",
    "raises": "raise SystemExit(3)\n",
}


@pytest.fixture
def home() -> Iterator[Path]:
    """A home whose path is short enough for a socket; its gateway ends also if a test
    that failed has left it.
    """
    with TemporaryDirectory(prefix="home") as folder:
        yield Path(folder)
        if (holder := holder_of(Path(folder))) is not None:
            psutil.Process(holder.pid).terminate()


def ran(home: Path, *statements: str) -> subprocess.CompletedProcess[str]:
    """Run *statements* by a client on the gateway of *home*, which it starts if there is none."""
    command = [sys.executable, "-m", "mt_core", "sql", "--embedded", "--home", str(home), "--format", "csv"]
    options = ["--catalog", "lake", "--schema", "default", "-D", "table.dml-sync=true"]
    texts = [part for statement in statements for part in ("-e", statement)]
    return subprocess.run(
        [*command, *options, *texts], cwd=ROOT, capture_output=True, text=True, timeout=START_S, check=False
    )


def told(connection: Connection, sql: str) -> object:
    """Return the rows of a statement, or the text of its error."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else None
    except Error as error:
        return str(error)


def torn(home: Path, table: str) -> Path:
    """Cut the newest metadata of a table off in the middle, as a full disk or a lost connection does."""
    files = sorted(
        home.glob(f"**/{table}-*/metadata/*.metadata.json"), key=lambda file: file.stat().st_mtime_ns
    )
    files[-1].write_bytes(files[-1].read_bytes()[:900])
    return files[-1]


def attacked(home: Path, connection: Connection) -> Mapping[str, str]:
    """Run statements that end a process or cannot be read, and return what is said to each."""
    said = {}
    for name, code in MODULES.items():
        file = home / f"{name}.py"
        file.write_text(code)
        said[name] = str(told(connection, FUNCTION.format(name=name, file=file)))
    said["deep"] = str(told(connection, f"SELECT {'(' * 20_000}1{')' * 20_000}"))
    said["path"] = str(told(connection, "CREATE TABLE `../../../esc` (a INT)"))
    return said


def test_an_embedded_gateway_stays_for_an_activated_table_and_ends_after_the_client_that_suspends_it(
    home: Path,
) -> None:
    statements = (
        "CREATE TABLE orders AS SELECT 'a' AS ds, 1 AS amount",
        "CREATE TABLE damaged AS SELECT 1 AS id",
        "SELECT * FROM orders",
        "CREATE MATERIALIZED TABLE daily FRESHNESS = INTERVAL '1' DAY AS SELECT ds, amount FROM orders",
    )

    first = ran(home, *statements)
    holder = holder_of(home)
    assert holder is not None, first.stderr
    processes = [psutil.Process(holder.pid), *psutil.Process(holder.pid).children(recursive=True)]
    with (
        closing(EmbeddedGateway(home)) as gateway,
        connect(gateway.url, transport=gateway.transport(), catalog="lake", schema="default") as connection,
    ):
        said = attacked(home, connection)
        file = torn(home, "damaged")
        damaged = str(told(connection, "SELECT * FROM damaged"))
        rows = told(connection, "SELECT amount FROM orders")
    after = holder_of(home)
    second = ran(home, "REFRESH MATERIALIZED TABLE daily", "ALTER MATERIALIZED TABLE daily SUSPEND")
    _, staying = psutil.wait_procs(processes, START_S)
    left = (home / "gateway.sock").exists()

    assert (first.returncode, second.returncode, staying, left) == (0, 0, [], False), (
        first.stderr,
        second.stderr,
    )
    assert "a,1\n" in first.stdout
    assert len(processes) > 1
    assert f"continues as process {holder.pid} and stops after this work: " in first.stderr
    assert "1 materialized table is ACTIVATED" in first.stderr
    assert (rows, after) == ([(1,)], holder)
    assert all(f"module {name} " in said[name] for name in MODULES), said
    assert "nests 20000 levels" in said["deep"]
    assert "../../../esc" in said["path"]
    assert not [*home.parent.glob("esc*")]
    assert file.name in damaged
    assert f"(process {holder.pid}) owns {home} and is used." in second.stderr
    assert "continues as process" not in second.stderr
