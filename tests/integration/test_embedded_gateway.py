"""A real embedded gateway, through DB-API: statements that would end or stop it are refused, and it goes on with the others."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mt_core.client.dbapi import Connection, connect
from mt_core.client.embedded import EmbeddedGateway
from mt_core.client.exceptions import Error
from mt_core.client.home import holder_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

END_S = 120.0
FUNCTION = "CREATE FUNCTION {name} AS '{name}.f' LANGUAGE PYTHON USING FILE '{file}'"
MODULES = {
    "exits": "import os\nos._exit(3)\n",
    "crashes": "import ctypes\nctypes.string_at(0)\n",
    "raises": "raise SystemExit(3)\n",
}


class Clients:
    """Clients of the gateway in a home, each with an object of its own as each process of a user has."""

    def __init__(self, home: Path) -> None:
        self.home, self._gateways = home, list[EmbeddedGateway]()

    def open(self) -> Connection:
        gateway = EmbeddedGateway(self.home)
        self._gateways.append(gateway)
        return connect(gateway.url, transport=gateway.transport(), catalog="lake", schema="default")

    def close(self) -> None:
        for gateway in self._gateways:
            gateway.close()
        for process in self.started():
            process.wait(END_S)

    def started(self) -> list[subprocess.Popen[bytes]]:
        """Return the gateways that clients started and have not lost."""
        return [gateway._started for gateway in self._gateways if gateway._started is not None]


@pytest.fixture
def clients() -> Iterator[Clients]:
    """Clients of a home whose path is short enough for a socket; its gateway ends after them."""
    with TemporaryDirectory(prefix="home") as folder, closing(Clients(Path(folder))) as made:
        yield made


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
    files = sorted(home.glob(f"**/{table}-*/metadata/*.metadata.json"), key=lambda file: file.stat().st_mtime_ns)
    files[-1].write_bytes(files[-1].read_bytes()[:900])
    return files[-1]


def test_an_embedded_gateway_refuses_what_would_end_or_stop_it_and_goes_on(clients: Clients) -> None:
    home = clients.home
    with clients.open() as connection:
        made = [told(connection, f"CREATE TABLE {name} AS SELECT 1 AS id") for name in ("orders", "damaged")]
        assert made == [None, None]
        holder = holder_of(home)
        modules = {}
        for name, code in MODULES.items():
            file = home / f"{name}.py"
            file.write_text(code)
            modules[name] = str(told(connection, FUNCTION.format(name=name, file=file)))
        deep = str(told(connection, f"SELECT {'(' * 20_000}1{')' * 20_000}"))
        path = str(told(connection, "CREATE TABLE `../../../esc` (a INT)"))
        file = torn(home, "damaged")
        damaged = str(told(connection, "SELECT * FROM damaged"))
        rows = told(connection, "SELECT id FROM orders")
        after = holder_of(home)

    assert (rows, after) == ([(1,)], holder)
    assert all(f"module {name} " in text for name, text in modules.items()), modules
    assert "nests 20000 levels" in deep
    assert "../../../esc" in path
    assert not [*home.parent.glob("esc*")]
    assert file.name in damaged
