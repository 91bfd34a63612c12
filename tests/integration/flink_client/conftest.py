from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mt_core.client.http import GatewayClient
from mt_core.errors import GatewayError
from mt_core.spark.driver.java import check_java
from tests.integration.flink_client.jars import flink_jars
from tests.integration.flink_client.jdbc import JdbcProgram, jdbc_program
from tests.integration.flink_client.sql_client import SqlClient
from tests.support.gateway.own_process import rows_of


@pytest.fixture(scope="package")
def jars() -> list[Path]:
    """The classes of Flink's clients, fetched when they are needed first."""
    return flink_jars(os.environ)


@pytest.fixture(autouse=True)
def no_jobs_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test has left running on the gateway, which all share, ends with the test."""
    yield
    if "clients_url" in request.fixturenames:
        with GatewayClient(request.getfixturevalue("clients_url")) as gateway:
            left = [row["job id"] for row in rows_of(gateway, "SHOW JOBS") if row["status"] == "RUNNING"]
            for job in left:
                with suppress(GatewayError):
                    rows_of(gateway, f"STOP JOB '{job}'")


@pytest.fixture(scope="module")
def client(jars: list[Path], clients_url: str, tmp_path_factory: pytest.TempPathFactory) -> SqlClient:
    folder = tmp_path_factory.mktemp("client")
    return SqlClient(java=check_java(os.environ), jars=jars, folder=folder, url=clients_url)


@pytest.fixture(scope="package")
def jdbc(jars: list[Path], clients_url: str) -> Iterator[JdbcProgram]:
    with jdbc_program(check_java(os.environ), jars, clients_url.removeprefix("http://")) as program:
        yield program
