"""A temporary PostgreSQL server for tests, on a free local port."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from mt_core.demo.free_ports import free_port

START_S = 90
FAST = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "shared_buffers=32MB",
    "max_connections=100",
)


def find_binaries() -> Path | None:
    """Return the folder with initdb and postgres, of the system or of the package pgserver; None without."""
    initdb = shutil.which("initdb")
    candidates = [Path(initdb).resolve().parent] if initdb else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    spec = find_spec("pgserver")
    if spec is not None and spec.origin is not None:
        candidates.append(Path(spec.origin).parent / "pginstall" / "bin")
    return next(
        (each for each in candidates if (each / "initdb").exists() and (each / "postgres").exists()), None
    )


@contextmanager
def temporary_postgres() -> Iterator[str]:
    """Run a server whose files are removed at the end, and yield the URL of its database `postgres`."""
    # Not a pytest folder, which the account of the server cannot access.
    folder = Path(tempfile.mkdtemp(prefix="freshtable-postgres-"))
    try:
        with start_postgres(folder) as url:
            yield url
    finally:
        shutil.rmtree(folder)


@contextmanager
def start_postgres(folder: Path) -> Iterator[str]:
    """Run a server with its files in *folder* and yield the URL of its database `postgres`.

    PostgreSQL refuses to run as root. Root therefore runs it as nobody, who must have access to *folder*.
    Raises FileNotFoundError without binaries.
    """
    binaries = find_binaries()
    if binaries is None:
        raise FileNotFoundError("no PostgreSQL server: install postgresql or pip install pgserver")
    account = _account(folder)
    port, log = free_port(), folder / "postgres.log"
    initdb = [binaries / "initdb", "-D", folder / "data", "-U", "freshtable", "-A", "trust", "-E", "UTF8"]
    subprocess.run(
        [*initdb, "--locale=C.UTF-8", "--no-sync"], check=True, capture_output=True, cwd=folder, **account
    )
    settings = [*FAST, f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories="]
    command = [
        binaries / "postgres",
        "-D",
        folder / "data",
        *(part for each in settings for part in ("-c", each)),
    ]
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, **account)
        try:
            url = f"postgresql://freshtable@127.0.0.1:{port}/postgres"
            _wait(url, server, log)
            yield url
        finally:
            _stop(server)


@contextmanager
def fresh_database(server_url: str, name: str) -> Iterator[str]:
    """Create the database *name*, yield its URL, and drop it with its open connections."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        try:
            yield server_url.rpartition("/")[0] + "/" + name
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def _account(folder: Path) -> dict[str, Any]:
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
            return
        except psycopg.OperationalError as cause:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {log.read_text()[-2000:]}") from cause
            time.sleep(0.05)


def _stop(server: subprocess.Popen[bytes]) -> None:
    # SIGQUIT, an immediate shutdown, because the data is no longer needed.
    server.send_signal(signal.SIGQUIT)
    try:
        server.wait(timeout=10)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
