from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.standalone_cluster import StandaloneCluster, standalone_cluster
from tests.support.gateway.own_process import FAST, started_gateway


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """One real cluster for the whole test session; a test that stops it starts it again."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="session")
def clients_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home folder of the gateway of the clients."""
    return tmp_path_factory.mktemp("clients")


@pytest.fixture(scope="session")
def clients_url(clients_home: Path) -> Iterator[str]:
    """The URL of a real gateway for all tests of clients in Python and of Flink, and of readers."""
    settings = ("table.local-time-zone=Asia/Kolkata", "materialized-table.iceberg-refresh-state=true")
    with started_gateway(clients_home, *FAST, *settings) as url:
        yield url
