"""How do the gateway and its Python driver compare with Spark's Thrift server and PyHive?"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyspark

from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, in_turns
from benchmarks.wire import gateway_process
from mt_core.client import dbapi
from mt_core.demo.free_ports import free_port

ROUNDS, WARM_UP = 30, 10
LARGE_ROUNDS = 3
ROWS = 1_000_000
START_S = 120.0
POLL_S = 0.25
FETCH_ROWS = 10_000
SMALL = {"SELECT 1": ("SELECT 1", "SELECT 1"), "list the catalogs": ("SHOW CATALOGS", "SHOW CATALOGS")}
LARGE = (
    "SELECT id, CAST(id % 1000 AS INT) AS number, id / 7.0D AS ratio, CAST(id AS STRING) AS text, "
    f"timestamp_seconds(id) AS moment FROM range({ROWS})"
)
SERVER = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"


def measure() -> Iterator[Finding]:
    """Yield the table of statements through the gateway and through the Thrift server."""
    with thrift_server() as port, gateway_process() as gateway:
        theirs = _connect(port)
        ours = dbapi.connect(gateway.url)
        taken = {name: _turns(ours, theirs, texts, ROUNDS, WARM_UP) for name, texts in SMALL.items()}
        large = taken[f"{ROWS:,} rows of 5 columns"] = _turns(ours, theirs, (LARGE, LARGE), LARGE_ROUNDS, 1)
        theirs.close()
        ours.close()
    ratio = large[0].median / large[1].median
    yield Finding(
        title="Statements through Spark's Thrift server with PyHive, and through the gateway with its driver",
        columns=["statement", "Thrift + PyHive", "gateway + driver", "ratio"],
        rows=[
            [name, theirs.shown(), ours.shown(), f"{ours.median / theirs.median:.2f}"]
            for name, (ours, theirs) in taken.items()
        ],
        targets=[
            Target(
                asked=f"{ROWS:,} rows as Python tuples faster than through the Thrift server with PyHive",
                measured=f"{ratio:.2f} times its time",
                met=ratio < 1,
            )
        ],
        notes=[
            f"Median (min to max) of {ROUNDS} rounds, {LARGE_ROUNDS} for the large result, in turns; "
            "each server has a JVM of its own. Both drivers give every row as a Python tuple; "
            f"PyHive fetches {FETCH_ROWS:,} at a time, which suits it best.",
        ],
    )


def _turns(
    ours: dbapi.Connection, theirs: Any, texts: tuple[str, str], rounds: int, warm_up: int
) -> tuple[Samples, Samples]:
    contenders: dict[str, Callable[[], object]] = {
        "ours": lambda: _fetched(ours.cursor(), texts[0]),
        "theirs": lambda: _fetched(theirs.cursor(arraysize=FETCH_ROWS), texts[1]),
    }
    taken = in_turns(contenders, rounds, warm_up=warm_up)
    return taken["ours"], taken["theirs"]


def _fetched(cursor: Any, statement: str) -> int:
    cursor.execute(statement)
    rows = len(cursor.fetchall())
    cursor.close()
    return rows


def _connect(port: int) -> Any:
    # Only this benchmark needs the package, which the extra `bench` installs.
    from pyhive import hive

    return hive.connect("127.0.0.1", port, auth="NOSASL")


@contextmanager
def thrift_server() -> Iterator[int]:
    """Run Spark's Thrift server during the block. Yield its port."""
    with TemporaryDirectory(prefix="freshtable-bench-") as folder:
        port = free_port()
        process = subprocess.Popen(
            _command(Path(folder), port), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _wait_for(port, process)
            yield port
        finally:
            process.terminate()
            process.wait()


def _command(folder: Path, port: int) -> list[str]:
    conf = {
        "spark.master": "local[*]",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={folder}/metastore;create=true"
        ),
        "spark.hadoop.hive.server2.authentication": "NOSASL",
        "spark.hadoop.hive.server2.thrift.port": str(port),
        "spark.hadoop.hive.server2.thrift.bind.host": "127.0.0.1",
    }
    options = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    return [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *options,
        "--class",
        SERVER,
        "spark-internal",
    ]


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(POLL_S)
        else:
            return
    raise TimeoutError("Spark's Thrift server did not start.")
