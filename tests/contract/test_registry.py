from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import QueuePool

from mt_core.clock import SystemClock
from mt_core.registry.database import connect
from mt_core.registry.store import SqlRegistry
from tests.support.gateway.whole import empty_registry
from tests.support.memory_registry import MemoryRegistry
from tests.support.registry_contract import RegistryContract


class TestMemoryRegistry(RegistryContract):
    @pytest.fixture
    def registry(self) -> MemoryRegistry:
        return MemoryRegistry(SystemClock())


class TestSqliteRegistry(RegistryContract):
    @pytest.fixture
    def registry(self, tmp_path: Path) -> Iterator[SqlRegistry]:
        (tmp_path / "registry.db").write_bytes(empty_registry())
        yield from _opened(f"sqlite:///{tmp_path}/registry.db")


@pytest.mark.postgres
class TestPostgresRegistry(RegistryContract):
    @pytest.fixture
    def registry(self, postgres_database: str) -> Iterator[SqlRegistry]:
        yield from _opened(postgres_database)


def _opened(url: str) -> Iterator[SqlRegistry]:
    engine = connect(url)
    registry = SqlRegistry(engine)
    try:
        yield registry
        assert isinstance(engine.pool, QueuePool)
        assert engine.pool.checkedout() == 0
    finally:
        registry.close()
