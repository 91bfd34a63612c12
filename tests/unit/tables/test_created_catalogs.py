from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from mt_core.errors import DefinitionInvalid, IllegalStatus
from mt_core.model.catalog import CatalogAbilities, CreatedCatalog
from mt_core.model.table import MaterializedTable, TableIdentifier
from mt_core.sessions.catalog.created_catalogs import CreatedCatalogs
from mt_core.testing.fake_clock import FakeClock
from tests.support.memory_registry import MemoryRegistry
from tests.support.registry_facts import a_table
from tests.support.registry_steps import insert_tables

ARCHIVE = CreatedCatalog(name="archive", options={"type": "iceberg", "catalog-type": "hadoop", "token": "t"})


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry(FakeClock(datetime(2026, 1, 1, tzinfo=UTC)))


@pytest.fixture
def catalogs(registry: MemoryRegistry) -> CreatedCatalogs:
    return CreatedCatalogs(registry, reserved=("lake",))


def reading(query: str, **changes: Any) -> MaterializedTable:
    table = a_table()
    return replace(table, definition=replace(table.definition, expanded_query=query, **changes))


def test_a_created_catalog_is_there_for_the_next_process_too(
    registry: MemoryRegistry, catalogs: CreatedCatalogs
) -> None:
    before = catalogs.settings()

    catalogs.create(ARCHIVE)

    assert (before, catalogs.get("archive"), catalogs.get("nobody")) == ({}, ARCHIVE, None)
    assert catalogs.settings()["archive"]["spark.sql.catalog.archive.token"] == "t"
    assert catalogs.settings() is catalogs.settings()
    assert CreatedCatalogs(registry).settings() == catalogs.settings()


def test_a_name_can_be_taken_once_and_none_of_the_configuration(catalogs: CreatedCatalogs) -> None:
    catalogs.create(ARCHIVE)

    with pytest.raises(DefinitionInvalid, match="Catalog archive exists already"):
        catalogs.create(replace(ARCHIVE, options={}))
    with pytest.raises(
        DefinitionInvalid, match=r"Catalog lake is a setting of the gateway \(spark\.sql\.catalog\.lake\)"
    ):
        catalogs.create(replace(ARCHIVE, name="lake"))

    assert catalogs.get("archive") == ARCHIVE


def test_a_catalog_is_altered_unless_somebody_else_did(catalogs: CreatedCatalogs) -> None:
    catalogs.create(ARCHIVE)
    altered = replace(ARCHIVE, comment="old")

    catalogs.alter(altered, expected=ARCHIVE)
    with pytest.raises(DefinitionInvalid, match="was altered or dropped at the same time"):
        catalogs.alter(replace(ARCHIVE, comment="other"), expected=ARCHIVE)

    assert catalogs.get("archive") == altered


def test_the_configuration_hides_a_catalog_of_its_name_and_leaves_it_in_the_registry(
    registry: MemoryRegistry,
) -> None:
    CreatedCatalogs(registry).create(ARCHIVE)

    hiding = CreatedCatalogs(registry, reserved=("archive",))

    assert (hiding.get("archive"), hiding.settings()) == (None, {})
    assert CreatedCatalogs(registry).get("archive") == ARCHIVE


def test_a_catalog_that_this_release_does_not_understand_leaves_the_others_alone(
    registry: MemoryRegistry,
) -> None:
    with registry.transaction() as transaction:
        transaction.catalogs.put(ARCHIVE)
        transaction.catalogs.put(CreatedCatalog(name="later", options={"type": "quantum"}))

    catalogs = CreatedCatalogs(registry)

    assert list(catalogs.settings()) == ["archive"]
    assert catalogs.get("later") is not None


@pytest.mark.parametrize(
    ("table", "use"),
    [
        (
            replace(a_table(), identifier=TableIdentifier("archive", ("s",), "t")),
            r"archive\.s\.t is in it",
        ),
        (reading("SELECT * FROM `archive`.`s`.`t`"), r"lake\.sales\.daily reads from it"),
        (reading("SELECT 1 FROM archive.`a.b`.`c`.t -- x"), "reads from it"),
        (reading("SELECT 1", catalog="archive"), "reads from it"),
    ],
)
def test_a_catalog_that_a_materialized_table_needs_is_not_dropped(
    registry: MemoryRegistry, catalogs: CreatedCatalogs, table: MaterializedTable, use: str
) -> None:
    catalogs.create(ARCHIVE)
    insert_tables(registry, table)

    with pytest.raises(IllegalStatus, match=rf"Catalog archive cannot be dropped: .*{use}\. DROP these"):
        catalogs.drop("archive")

    assert catalogs.get("archive") == ARCHIVE


@pytest.mark.parametrize(
    "table",
    [
        reading("SELECT archive.a, x.archive.b.c, 'archive.a.b' FROM `lake`.`archive`.`t`"),
        reading(
            "SELECT * FROM `archive`.`s`.`t`", settings={"spark.sql.catalog.archive": "org.example.Catalog"}
        ),
    ],
)
def test_a_catalog_is_dropped_when_no_table_needs_it(
    registry: MemoryRegistry, catalogs: CreatedCatalogs, table: MaterializedTable
) -> None:
    catalogs.create(ARCHIVE)
    insert_tables(registry, table)

    catalogs.drop("archive")

    assert (catalogs.get("archive"), catalogs.settings()) == (None, {})


def test_the_abilities_of_a_created_catalog_are_kept_in_the_registry(
    registry: MemoryRegistry, catalogs: CreatedCatalogs
) -> None:
    catalogs.create(ARCHIVE)
    abilities = CatalogAbilities(has_views=False)

    catalogs.keep_abilities("archive", abilities)

    assert catalogs.abilities("archive") == abilities
    assert CreatedCatalogs(registry).abilities("archive") == abilities
    assert catalogs.get("archive") == ARCHIVE


def test_the_abilities_of_a_configured_catalog_are_those_of_this_start(
    registry: MemoryRegistry, catalogs: CreatedCatalogs
) -> None:
    catalogs.keep_abilities("lake", CatalogAbilities())

    assert catalogs.abilities("lake") == CatalogAbilities()
    assert CreatedCatalogs(registry).abilities("lake") is None
