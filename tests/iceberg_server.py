"""Iceberg's own REST server for tests: over a JDBC catalog with SQLite, in a process of its own.

Run as a module it fetches the jars and says where they are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mt_core.demo.free_ports import free_port
from mt_core.spark.driver.jars import default_jars_dir, local_jars
from tests.integration.maven_jars import SPARK_JARS, Environ, fetch, ivy_files
from tests.server_process import ServerProcess, is_success

MODULES = Path(__file__).parent / "assets" / "iceberg_server" / "ivy.xml"
# What the server takes from Spark.
_OF_SPARK = ("avro-1*", "RoaringBitmap-*", "slf4j-api-*", "commons-co*", "hadoop-client-*", "jackson-*")
_MEMORY = "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def server_jars(environ: Environ) -> list[Path]:
    """Return the jars of `ivy.xml`, about 12 MB. Raises ConfigError."""
    return sorted(ivy_files(environ, "iceberg-server", MODULES).glob("*.jar"))


class IcebergServer:
    """The address of a REST catalog, whose process a test can kill and start again.

    `catalog_database` is the SQLite database of the catalog, and `warehouse` the folder of its files.
    """

    def __init__(self, folder: Path, options: Mapping[str, str] | None = None) -> None:
        port = free_port()
        self.rest_uri, self.warehouse = f"http://127.0.0.1:{port}", folder / "warehouse"
        self.catalog_database = folder / "catalog.db"
        drivers = [jar for jar in local_jars(default_jars_dir(os.environ)) or [] if "sqlite" in jar.name]
        spark = [jar for pattern in _OF_SPARK for jar in SPARK_JARS.glob(f"{pattern}.jar")]
        classes = ":".join(map(str, [*server_jars(os.environ), *spark, *drivers]))
        settings = {
            "rest.port": str(port),
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:sqlite:file:{self.catalog_database}?busy_timeout=30000",
            "jdbc.schema-version": "V1",
            "warehouse": str(self.warehouse),
            **(options or {}),
        }
        self.process = ServerProcess(
            ["java", *_MEMORY.split(), "-cp", classes, "org.apache.iceberg.rest.RESTCatalogServer"],
            folder,
            lambda: is_success(f"{self.rest_uri}/v1/config"),
            {_variable(key): value for key, value in settings.items()},
        )

    @property
    def rest_options(self) -> dict[str, str]:
        """The options of the catalog, without its prefix."""
        return {"type": "rest", "uri": self.rest_uri, "warehouse": str(self.warehouse)}


@contextmanager
def iceberg_server(folder: Path, options: Mapping[str, str] | None = None) -> Iterator[IcebergServer]:
    """Run a server with its files in *folder* until the end of the block."""
    server = IcebergServer(folder, options)
    with server.process:
        yield server


def _variable(key: str) -> str:
    """Return the name of the variable from which the server reads an option of its catalog."""
    return "CATALOG_" + key.upper().replace("-", "__").replace(".", "_")


if __name__ == "__main__":
    sys.exit(fetch("Iceberg server", server_jars))
