"""A Trino of the tests: a server of one node, which reads Iceberg tables by their metadata files.

It needs Java 24, which nothing else here does.
"""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from filelock import FileLock

from mt_core.demo.free_ports import free_port
from tests.integration.maven_jars import ivy_files
from tests.server_process import ServerProcess

MODULES = Path(__file__).parents[1] / "assets" / "trino" / "ivy.xml"
LEAST_JAVA = 24
_CATALOG = """\
connector.name=iceberg
iceberg.catalog.type=TESTING_FILE_METASTORE
hive.metastore.catalog.dir=file://{folder}/metastore
iceberg.register-table-procedure.enabled=true
fs.hadoop.enabled=true
"""
_CONFIG = """\
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
"""


class Trino:
    """A running server."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    @property
    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self._url}/v1/info", timeout=5).json()["starting"] is False
        except httpx.TransportError:
            return False

    def rows(self, statement: str) -> list[list[Any]]:
        """Return the rows of a statement. Raises ValueError with the message of Trino."""
        rows: list[list[Any]] = []
        with httpx.Client(headers={"X-Trino-User": "test"}, timeout=60) as client:
            body = client.post(f"{self._url}/v1/statement", content=statement).json()
            while True:
                if "error" in body:
                    raise ValueError(body["error"]["message"])
                rows += body.get("data", ())
                if "nextUri" not in body:
                    return rows
                body = client.get(body["nextUri"]).json()

    def rows_of_table(self, name: str, metadata_file: str) -> list[list[Any]]:
        """Return the rows of a table by its metadata file, an URI; register it as *name* in `lake.read`."""
        location, _, file = metadata_file.rpartition("/metadata/")
        self.rows(f"CALL lake.system.register_table('read', '{name}', '{location}', '{file}')")
        return self.rows(f"SELECT * FROM lake.read.{name}")


@contextmanager
def running_trino(folder: Path) -> Iterator[Trino]:
    """Run a server with its files in *folder* until the end of the block. Skip the test without its Java."""
    java = _java()
    if java is None:
        pytest.skip(f"Trino needs Java {LEAST_JAVA} in JAVA_HOME or below /usr/lib/jvm")
    home, port = _home(), free_port()
    (folder / "catalogs").mkdir(parents=True)
    (folder / "catalogs" / "lake.properties").write_text(_CATALOG.format(folder=folder))
    (folder / "plugins").mkdir()
    (folder / "plugins" / "iceberg").symlink_to(home / "plugin" / "iceberg")
    (folder / "config.properties").write_text(_CONFIG.format(port=port))
    options = {
        "config": folder / "config.properties",
        "catalog.config-dir": folder / "catalogs",
        "plugin.dir": folder / "plugins",
        "node.data-dir": folder / "data",
        "node.environment": "test",
    }
    command = [java, "-Xmx1g", "--add-modules=jdk.incubator.vector"]
    command += [f"-D{key}={value}" for key, value in options.items()]
    trino = Trino(port)
    with ServerProcess(
        [*command, "-cp", f"{home}/lib/*", "io.trino.server.TrinoServer"], folder, lambda: trino.is_ready
    ):
        trino.rows(f"CREATE SCHEMA lake.read WITH (location = 'file://{folder}/read')")
        yield trino


def _home() -> Path:
    """Return the folder of the server, which is fetched and unpacked on first use."""
    folder = ivy_files(os.environ, "trino", MODULES)
    with FileLock(f"{folder}.lock"):
        for archive in folder.glob("*.tar.gz"):
            with tarfile.open(archive) as packed:
                packed.extractall(folder, filter="data")
            archive.unlink()
    [home] = folder.iterdir()
    return home


def _java() -> str | None:
    """Return a Java that is new enough, or None."""
    homes = [Path(os.environ.get("JAVA_HOME", "")), *sorted(Path("/usr/lib/jvm").glob("*"), reverse=True)]
    for release in (home / "release" for home in homes):
        text = release.read_text() if release.exists() else ""
        version = re.search(r'^JAVA_VERSION="(\d+)', text, re.MULTILINE)
        if version is not None and int(version[1]) >= LEAST_JAVA:
            return str(release.with_name("bin") / "java")
    return None
