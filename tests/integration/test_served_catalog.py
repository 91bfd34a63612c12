"""A gateway whose catalog `lake` is that of a REST server, from CREATE to DROP of its tables."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyarrow.fs import FileSelector, FileType, S3FileSystem

from mt_core.errors import GatewayError
from tests.depth import DEPTH
from tests.iceberg_server import IcebergServer
from tests.integration.rest_catalog import NESSIE, WAREHOUSE, Lack, rest_catalog
from tests.object_store import ObjectStore, aws_jars
from tests.support.gateway.own_process import GatewayUnderTest, rows_of, wait_until
from tests.support.listing import paths_below

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
DEEP = pytest.mark.skipif(DEPTH == 1, reason="CI has a server that chooses folders, with every kind of table")
# A server that has only what tables need.
WEAK = (Lack.STAGED_CREATION, Lack.PURGE)
TOTALS = "SELECT city, sum(amount) AS amount FROM orders GROUP BY city"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A REST server: the options of a catalog on it, and the files that its tables have."""

    options: Mapping[str, str]
    files: Callable[[], set[str]]
    jars: tuple[str, ...] = ()
    """The setting of a gateway that reaches these files."""

    @property
    def settings(self) -> list[str]:
        """The settings of a gateway on the server."""
        of_catalog = [
            f"catalog.{'' if key in ('type', 'uri', 'warehouse') else 'options.'}{key}={value}"
            for key, value in self.options.items()
        ]
        return [*of_catalog, *self.jars]


@contextmanager
def server_of_python(folder: Path, lacks: Collection[Lack] = ()) -> Iterator[Server]:
    with rest_catalog(folder, lacks) as uri:
        options = {"type": "rest", "uri": uri, "warehouse": WAREHOUSE}
        yield Server(options=options, files=lambda: files_below(folder))


def seaweedfs(store: ObjectStore) -> Server:
    jars = setting_of(aws_jars(os.environ))
    return Server(options=store.rest_options, files=lambda: files_in(store), jars=(jars,))


def setting_of(jars: Sequence[Path]) -> str:
    """Return the setting of a gateway with these jars."""
    return f"spark.jars={','.join(map(str, jars))}"


@pytest.fixture(params=["weak", "seaweedfs"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """What a gateway has its catalog on."""
    if request.param == "weak":
        with server_of_python(tmp_path / "server", WEAK) as server:
            yield server
        return
    yield seaweedfs(request.getfixturevalue("object_store"))


@pytest.fixture(
    params=["pyiceberg", pytest.param("iceberg", marks=DEEP), pytest.param("seaweedfs", marks=DEEP)]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """What a user creates a catalog on."""
    match request.param:
        case "pyiceberg":
            with server_of_python(tmp_path / "server") as server:
                yield server
        case "iceberg":
            started: IcebergServer = request.getfixturevalue("rest_server")
            yield Server(options=started.rest_options, files=lambda: files_below(started.warehouse))
        case _:
            yield seaweedfs(request.getfixturevalue("object_store"))


def files_below(folder: Path) -> set[str]:
    return {str(path) for path in paths_below(folder) if path.is_file() and "catalog.db" not in path.name}


def files_in(store: ObjectStore) -> set[str]:
    files = S3FileSystem(
        endpoint_override=store.endpoint,
        access_key=store.access_key,
        secret_key=store.secret_key,
        region="us-east-1",
    )
    listed = files.get_file_info(FileSelector("ice", recursive=True, allow_not_found=True))
    return {each.path for each in listed if each.type is FileType.File}


def test_tables_are_created_refreshed_altered_and_dropped_without_leaving_files(
    server: Server, tmp_path: Path
) -> None:
    with GatewayUnderTest(tmp_path / "home", server.settings) as gateway:
        gateway.start()
        gateway.sql("CREATE TABLE orders (city STRING, amount INT)")
        gateway.sql("INSERT INTO orders VALUES ('Rome', 1), ('Bern', 2)")

        gateway.sql(
            f"CREATE MATERIALIZED TABLE daily FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS {TOTALS}"
        )
        gateway.sql(
            "CREATE MATERIALIZED TABLE live FRESHNESS = INTERVAL '1' SECOND REFRESH_MODE = CONTINUOUS "
            f"AS {TOTALS}"
        )
        assert rows(gateway, "daily") == {"Rome": 1, "Bern": 2}

        gateway.sql("INSERT INTO orders VALUES ('Rome', 5)")
        wait_until(lambda: rows(gateway, "live") == {"Rome": 6, "Bern": 2}, "live never followed")
        gateway.sql("REFRESH MATERIALIZED TABLE daily")
        assert rows(gateway, "daily") == {"Rome": 6, "Bern": 2}

        gateway.sql(
            "ALTER MATERIALIZED TABLE daily AS "
            "SELECT city, sum(amount) AS amount, count(*) AS n FROM orders GROUP BY city"
        )
        gateway.sql("REFRESH MATERIALIZED TABLE daily")
        assert {row["city"]: row["n"] for row in gateway.sql("SELECT * FROM daily")} == {"Rome": 2, "Bern": 1}

        gateway.sql("DROP MATERIALIZED TABLE daily")
        gateway.sql("DROP MATERIALIZED TABLE live")
        assert [row["table name"] for row in gateway.sql("SHOW TABLES")] == ["orders"]
        assert {path for path in server.files() if "orders" not in path} == set()


def rows(gateway: GatewayUnderTest, table: str) -> dict[str, int]:
    return {row["city"]: row["amount"] for row in gateway.sql(f"SELECT city, amount FROM {table}")}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayUnderTest]:
    """A gateway in which catalogs are created."""
    settings = (setting_of(aws_jars(os.environ)),) if DEPTH > 1 else ()
    with GatewayUnderTest(tmp_path_factory.mktemp("gateway") / "home", settings) as gateway:
        gateway.start()
        yield gateway


def test_a_catalog_that_lacks_history_holds_sources_only_and_the_doctor_says_why(
    gateway: GatewayUnderTest, tmp_path: Path
) -> None:
    with rest_catalog(tmp_path / "server", NESSIE) as uri:
        create(gateway, {"type": "rest", "uri": uri, "warehouse": WAREHOUSE})
        gateway.sql("CREATE TABLE prod.shop.orders (city STRING, amount INT)")

        with pytest.raises(GatewayError, match="does not keep earlier snapshots of a table"):
            gateway.sql(
                "CREATE MATERIALIZED TABLE prod.shop.daily FRESHNESS = INTERVAL '1' DAY "
                "AS SELECT city, sum(amount) AS amount FROM prod.shop.orders GROUP BY city"
            )
        with gateway.client() as client:
            rows_of(client, "SET 'execution.runtime-mode' = 'streaming'")
            with pytest.raises(GatewayError, match="does not keep branches of a table"):
                rows_of(client, "CREATE TABLE prod.shop.made AS SELECT * FROM prod.shop.orders")
        # The gateway runs meanwhile.
        checked = subprocess.run(
            [sys.executable, "-m", "mt_core", "doctor", "--catalog", "prod", "--namespace", "shop"],
            env={**os.environ, "FRESHTABLE_HOME": str(gateway.home)},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

        assert checked.returncode == 1, checked.stderr
        assert "problem  not: keeps earlier snapshots of a table" in checked.stdout.splitlines()
        assert "ok       drops tables" in checked.stdout.splitlines()
        assert [row["table name"] for row in gateway.sql("SHOW TABLES IN prod.shop")] == ["orders"]
        gateway.sql("DROP CATALOG prod")


def create(gateway: GatewayUnderTest, options: Mapping[str, str]) -> None:
    """Create the catalog `prod` with the options of a server, and a database in it."""
    written = {**options, "type": "iceberg", "catalog-type": options["type"]}
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in written.items())
    gateway.sql(f"CREATE CATALOG prod WITH ({pairs})")
    gateway.sql("CREATE DATABASE prod.shop")


def test_a_created_catalog_of_a_server_takes_tables_of_every_kind(
    gateway: GatewayUnderTest, place: Server
) -> None:
    before = place.files()
    create(gateway, place.options)
    assert place.files() == before

    gateway.sql("CREATE TABLE prod.shop.orders AS SELECT 'Rome' AS city, 1 AS amount")
    gateway.sql("CREATE TABLE prod.shop.copies (city STRING, amount INT)")
    gateway.sql(
        "CREATE MATERIALIZED TABLE prod.shop.daily FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL "
        "AS SELECT city, sum(amount) AS amount FROM prod.shop.orders GROUP BY city"
    )
    with gateway.client() as client:
        rows_of(client, "SET 'execution.runtime-mode' = 'streaming'")
        [copying] = rows_of(client, "INSERT INTO prod.shop.copies SELECT * FROM prod.shop.orders")
        [creating] = rows_of(client, "CREATE TABLE prod.shop.made AS SELECT * FROM prod.shop.orders")
    wait_until(lambda: exists(gateway, "made"), "the stream never created its table")
    gateway.sql("INSERT INTO prod.shop.orders VALUES ('Bern', 2)")

    for name in ("copies", "made"):
        wait_until(
            lambda name=name: rows(gateway, f"prod.shop.{name}") == {"Rome": 1, "Bern": 2},
            f"{name} never followed",
        )
    gateway.sql(f"STOP JOB '{copying['job id']}'")
    gateway.sql(f"STOP JOB '{creating['job id']}' WITH DROP")
    gateway.sql("ALTER MATERIALIZED TABLE prod.shop.daily REFRESH")
    assert rows(gateway, "prod.shop.daily") == {"Rome": 1, "Bern": 2}

    gateway.sql("DROP MATERIALIZED TABLE prod.shop.daily")
    for name in ("orders", "copies"):
        gateway.sql(f"DROP TABLE prod.shop.{name} PURGE")
    assert place.files() == before
    gateway.sql("DROP CATALOG prod")


def exists(gateway: GatewayUnderTest, table: str) -> bool:
    return table in [row["table name"] for row in gateway.sql("SHOW TABLES IN prod.shop")]
