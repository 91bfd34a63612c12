from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mt_core.spark.java import check_java
from tests.integration.flink_client.jars import flink_jars
from tests.integration.flink_client.jdbc import JdbcProgram
from tests.integration.flink_client.sql_client import SqlClient
from tests.integration.gateway_process import FAST
from tests.integration.started_gateway import started_gateway


@pytest.fixture(scope="package")
def jars() -> list[Path]:
    """The classes of Flink's clients, fetched when they are needed first."""
    return flink_jars(os.environ)


@pytest.fixture(scope="package")
def gateway_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a real gateway for all tests of these clients."""
    with started_gateway(tmp_path_factory.mktemp("home"), *FAST, "table.local-time-zone=Asia/Kolkata") as url:
        yield url


@pytest.fixture
def client(jars: list[Path], gateway_url: str, tmp_path: Path) -> SqlClient:
    return SqlClient(java=check_java(os.environ), jars=jars, folder=tmp_path, url=gateway_url)


@pytest.fixture(scope="package")
def jdbc(jars: list[Path], gateway_url: str) -> JdbcProgram:
    return JdbcProgram(java=check_java(os.environ), jars=jars, endpoint=gateway_url.removeprefix("http://"))
