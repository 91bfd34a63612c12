from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.standalone_cluster import StandaloneCluster, standalone_cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """One real cluster for the whole test session; a test that stops it starts it again."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made
