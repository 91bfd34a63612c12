from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from mt_core.errors import RegistryError
from mt_core.registry.inspection import inspect_database
from mt_core.registry.schema import METADATA, NEWEST
from mt_core.registry.store import SqlRegistry


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        (tmp_path / "a folder%20").mkdir()
        return f"sqlite:///{tmp_path}/a folder%20/registry.db"
    return str(request.getfixturevalue("postgres_database"))


def test_a_database_without_a_registry_has_no_migration_and_gets_none(url: str) -> None:
    first = inspect_database(url, 5)
    second = inspect_database(url, 5)

    assert (first.migration, first.tables) == (None, frozenset())
    assert second == first


def test_a_registry_has_its_migration_and_its_tables(url: str) -> None:
    SqlRegistry.open(url).close()

    found = inspect_database(url, 5)

    assert (found.exists, found.migration) == (True, NEWEST)
    assert found.tables == {*METADATA.tables, "alembic_version"}


def test_a_registry_with_an_earlier_migration_stays_as_it_is(url: str) -> None:
    SqlRegistry.open(url).close()
    driver = url.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(driver)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0014'"))
    engine.dispose()

    found = [inspect_database(url, 5).migration for _ in range(2)]

    assert found == ["0014", "0014"]


def test_a_registry_can_be_looked_at_while_a_gateway_writes_to_it(url: str) -> None:
    with closing(SqlRegistry.open(url)) as registry, registry.transaction():
        found = inspect_database(url, 1)

    assert found.migration == NEWEST


@pytest.mark.postgres
def test_a_database_that_is_not_there_is_named_without_its_password(postgres_database: str) -> None:
    missing = make_url(postgres_database).set(
        database="none_of_this_name", username="anna", password="s3cret"
    )

    with pytest.raises(RegistryError) as caught:
        inspect_database(missing.render_as_string(hide_password=False), 5)

    assert "anna:***@" in str(caught.value)
    assert "s3cret" not in str(caught.value)
