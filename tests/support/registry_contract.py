"""The contract of registries.

To test a registry, subclass `RegistryContract` in a test module and provide a fixture `registry`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mt_core.errors import RevisionConflict, TableExists, TableGone
from mt_core.model.catalog import CreatedCatalog
from mt_core.model.connector_table import ConnectorTable
from mt_core.model.gateway import GatewayLease
from mt_core.model.run import RefreshRun, RunKind, RunStatus
from mt_core.model.table import RefreshStatus, TableIdentifier
from mt_core.tables.registry import Registry, Tombstone
from mt_core.workflow.definitions import etag_of, shard_of
from tests.support.registry_contract_changes import ChangesContract
from tests.support.registry_contract_functions import FunctionsContract
from tests.support.registry_contract_jobs import JobsContract
from tests.support.registry_contract_ledger import LedgerContract
from tests.support.registry_contract_transactions import TransactionsContract
from tests.support.registry_facts import (
    HOUR,
    NOON,
    a_connector_table,
    a_definition,
    a_run,
    a_table,
    an_intent,
)
from tests.support.registry_steps import (
    all_runs,
    all_tables,
    insert_runs,
    insert_tables,
)


class TablesContract:
    """The contract for tables."""

    def test_a_table_is_found_by_id_and_by_name_exactly_as_it_was_put(self, registry: Registry) -> None:
        intent = an_intent(
            "ALTER", detail={"columns": ["a", "b"]}, lease_until=NOON + timedelta(microseconds=7)
        )
        table = a_table(
            handler='{"version": 1}', dynamic_options={"k": "ü'\"%"}, intent=intent, rebuild_due="f", claim=3
        )
        insert_tables(registry, table)

        with registry.transaction() as transaction:
            found = (
                transaction.tables.get(table.table_id),
                transaction.tables.named(table.identifier),
                transaction.tables.page(),
            )

        assert found == (table, table, [table])

    def test_a_gateway_is_found_exactly_as_it_was_put_last(self, registry: Registry) -> None:
        first = GatewayLease(
            owner="b", lease_until=NOON, url="http://h:1", host="h", machine="m", pid=7, started="9"
        )
        other = GatewayLease(owner="a", lease_until=NOON + timedelta(microseconds=7))
        renewed = replace(first, lease_until=NOON + HOUR)

        with registry.transaction() as transaction:
            for lease in (first, other, renewed):
                transaction.gateways.put(lease)
            found = transaction.gateways.all()
            transaction.gateways.delete("a")
            transaction.gateways.delete("nobody")

        with registry.transaction() as transaction:
            assert (found, transaction.gateways.all()) == ([other, renewed], [renewed])

    def test_an_unknown_table_is_none(self, registry: Registry) -> None:
        with registry.transaction() as transaction:
            assert transaction.tables.get("nobody") is None
            assert transaction.tables.named(TableIdentifier("lake", ("sales",), "nobody")) is None
            assert transaction.tables.page() == []

    def test_tables_come_ordered_by_identifier(self, registry: Registry) -> None:
        names = ["b", "a_b", "aB", "ab", "a", "é"]
        insert_tables(registry, *(a_table(name) for name in names))

        with registry.transaction() as transaction:
            found = [table.identifier.name for table in transaction.tables.page()]

        assert found == sorted(names)

    def test_tables_come_in_pages_that_follow_each_other(self, registry: Registry) -> None:
        names = ["lake.a.z", "lake.b.a", "lake.b.aB", "lake.b.ab", "lake.b.é", "zoo.a.a"]
        parts = [name.split(".") for name in names]
        tables = [
            replace(a_table(), identifier=TableIdentifier(first, (level,), last))
            for first, level, last in parts
        ]
        insert_tables(registry, *reversed(tables))

        with registry.transaction() as transaction:
            first = transaction.tables.page(limit=4)
            second = transaction.tables.page(after=first[-1].identifier, limit=4)
            rest = transaction.tables.page(after=TableIdentifier("lake", ("b",), "aa"))
            none = transaction.tables.page(after=tables[-1].identifier, limit=4)

        assert (first, second) == (tables[:4], tables[4:])
        assert (rest, none) == (tables[3:], [])

    def test_tables_are_found_by_many_names_at_once(self, registry: Registry) -> None:
        tables = [a_table(name) for name in ("c", "a", "b", "d")]
        insert_tables(registry, *tables)
        wanted = [tables[0].identifier, tables[1].identifier, a_table("gone").identifier]

        with registry.transaction() as transaction:
            assert transaction.tables.with_names(wanted) == [tables[1], tables[0]]
            assert transaction.tables.with_names([]) == []

    def test_a_level_with_a_dot_in_its_name_is_not_two_levels(self, registry: Registry) -> None:
        spaces = [("eu.sales",), ("eu", "sales"), ("eu.sales", "`x`"), ("eu`s",)]
        tables = [replace(a_table(), identifier=TableIdentifier("lake", space, "daily")) for space in spaces]
        insert_tables(registry, *tables)

        with registry.transaction() as transaction:
            found = [transaction.tables.named(table.identifier) for table in tables]

        assert found == tables

    def test_a_taken_name_is_refused_and_the_transaction_goes_on(self, registry: Registry) -> None:
        first, twin, other = a_table(), a_table(), a_table("other")

        with registry.transaction() as transaction:
            transaction.tables.insert(first)
            with pytest.raises(TableExists, match=r"lake\.sales\.daily"):
                transaction.tables.insert(twin)
            transaction.tables.insert(other)

        assert all_tables(registry) == [first, other]

    def test_replacing_raises_the_revision(self, registry: Registry) -> None:
        table = a_table()
        insert_tables(registry, table)

        with registry.transaction() as transaction:
            stored = transaction.tables.replace(
                table.advance(RefreshStatus.SUSPENDED, by="SUSPEND", at=NOON + HOUR)
            )

        assert stored.revision == table.revision + 1
        assert all_tables(registry) == [stored]

    def test_replacing_an_older_revision_is_a_conflict_and_changes_nothing(self, registry: Registry) -> None:
        table = a_table()
        insert_tables(registry, table)
        with registry.transaction() as transaction:
            stored = transaction.tables.replace(table)

        with (
            registry.transaction() as transaction,
            pytest.raises(RevisionConflict, match=r"lake\.sales\.daily"),
        ):
            transaction.tables.replace(replace(table, handler="late"))

        assert all_tables(registry) == [stored]

    def test_replacing_a_table_that_is_gone_is_a_conflict(self, registry: Registry) -> None:
        with registry.transaction() as transaction, pytest.raises(RevisionConflict):
            transaction.tables.replace(a_table())

        assert all_tables(registry) == []

    def test_renaming_to_a_taken_name_is_refused(self, registry: Registry) -> None:
        first, second = a_table("first"), a_table("second")
        insert_tables(registry, first, second)

        with registry.transaction() as transaction, pytest.raises(TableExists, match="first"):
            transaction.tables.replace(replace(second, identifier=first.identifier))

        assert all_tables(registry) == [first, second]

    def test_a_claim_counts_up_and_leaves_the_revision(self, registry: Registry) -> None:
        table = a_table(claim=4)
        insert_tables(registry, table)

        with registry.transaction() as transaction:
            claims = (
                transaction.tables.next_claim(table.table_id),
                transaction.tables.next_claim(table.table_id),
            )

        assert claims == (5, 6)
        assert all_tables(registry) == [replace(table, claim=6)]

    def test_replacing_a_table_that_was_read_before_a_claim_keeps_the_claim(self, registry: Registry) -> None:
        table = a_table()
        insert_tables(registry, table)

        with registry.transaction() as transaction:
            transaction.tables.next_claim(table.table_id)
            stored = transaction.tables.replace(replace(table, handler="new"))

        assert stored == replace(table, handler="new", revision=1, claim=1)
        assert all_tables(registry) == [stored]

    def test_a_claim_on_a_dropped_table_is_refused(self, registry: Registry) -> None:
        with registry.transaction() as transaction, pytest.raises(TableGone, match="nobody"):
            transaction.tables.next_claim("nobody")

    def test_deleting_a_table_frees_its_name_and_keeps_its_runs(self, registry: Registry) -> None:
        table, successor = a_table(), a_table()
        run = a_run(table.table_id)
        insert_tables(registry, table)
        insert_runs(registry, run)

        with registry.transaction() as transaction:
            transaction.tables.delete(table.table_id)
            transaction.tables.delete(table.table_id)
            transaction.tables.insert(successor)

        assert all_tables(registry) == [successor]
        assert all_runs(registry) == [run]

    def test_tombstones_are_kept_until_they_are_deleted(self, registry: Registry) -> None:
        identifier = TableIdentifier("lake", ("a", "b"), "c")
        late, early = (
            Tombstone(
                table_id=key, identifier=identifier, location="file:///c", handler=handler, dropped_at=at
            )
            for key, handler, at in (("1", None, NOON + HOUR), ("2", "h", NOON))
        )

        with registry.transaction() as transaction:
            transaction.tombstones.put(late)
            transaction.tombstones.put(replace(early, handler=None))
            transaction.tombstones.put(early)
        with registry.transaction() as transaction:
            before = transaction.tombstones.all()
            transaction.tombstones.delete("1")
            transaction.tombstones.delete("1")
            after = transaction.tombstones.all()

        assert before == [early, late]
        assert after == [early]


class DefinitionsContract:
    """The contract for workflow definitions."""

    def test_definitions_are_found_as_they_were_put(self, registry: Registry) -> None:
        second, first = a_definition("w2", init_config={"a": "b"}), a_definition("w1", paused=True, token=3)
        registry.definitions.put(replace(second, token=1))
        registry.definitions.put(second)
        registry.definitions.put(first)

        assert registry.definitions.get("w2") == second
        assert registry.definitions.get("nobody") is None
        assert registry.definitions.all() == [first, second]

    def test_a_deleted_definition_is_gone_and_deleting_twice_is_harmless(self, registry: Registry) -> None:
        kept = a_definition("w2")
        registry.definitions.put(a_definition("w1"))
        registry.definitions.put(kept)

        registry.definitions.delete("w1")
        registry.definitions.delete("w1")

        assert registry.definitions.all() == [kept]

    def test_a_definition_is_unpublished_with_the_transaction_or_not_at_all(self, registry: Registry) -> None:
        definition = a_definition("w1")
        registry.definitions.put(definition)

        def fail() -> None:
            with registry.transaction() as transaction:
                transaction.workflows.delete("w1")
                raise KeyError

        with pytest.raises(KeyError):
            fail()
        before = registry.definitions.all()
        with registry.transaction() as transaction:
            transaction.workflows.delete("w1")

        assert before == [definition]
        assert registry.definitions.all() == []

    def test_a_definition_is_paused_with_the_transaction(self, registry: Registry) -> None:
        definition = a_definition("w1")
        registry.definitions.put(definition)

        with registry.transaction() as transaction:
            transaction.workflows.pause("w1", paused=True)
            transaction.workflows.pause("w2", paused=True)

        assert registry.definitions.all() == [replace(definition, paused=True)]

    def test_the_version_of_a_shard_changes_with_its_definitions_and_their_tables_only(
        self, registry: Registry
    ) -> None:
        table = a_table(table_id="w1")
        number = shard_of("w1")
        stranger = next(f"x{i}" for i in range(999) if shard_of(f"x{i}") != number)

        def version() -> str:
            with registry.transaction() as transaction:
                return transaction.workflows.shard_version(number)

        versions = [version()]
        registry.definitions.put(a_definition("w1"))
        versions.append(version())
        insert_tables(registry, table)
        versions.append(version())
        registry.definitions.put(a_definition(stranger))
        with registry.transaction() as transaction:
            transaction.tables.next_claim("w1")
        same = version()
        with registry.transaction() as transaction:
            transaction.tables.replace(table)
        versions.append(version())
        registry.definitions.put(a_definition("w1", paused=True))
        versions.append(version())

        assert len(set(versions)) == len(versions)
        assert same == versions[2]

    def test_a_shard_has_its_definitions_and_an_etag_that_changes_with_them(self, registry: Registry) -> None:
        number = shard_of("w1")
        stranger = next(f"x{i}" for i in range(999) if shard_of(f"x{i}") != number)
        definition = a_definition("w1")
        registry.definitions.put(a_definition(stranger))

        empty = registry.definitions.shard(number)
        registry.definitions.put(definition)
        first = registry.definitions.shard(number)
        registry.definitions.put(a_definition(stranger, paused=True))
        same = registry.definitions.shard(number)
        registry.definitions.put(replace(definition, paused=True))
        changed = registry.definitions.shard(number)

        assert empty == (etag_of([]), [])
        assert first == same == (etag_of([definition]), [definition])
        assert changed == (etag_of([replace(definition, paused=True)]), [replace(definition, paused=True)])
        assert len({empty[0], first[0], changed[0]}) == 3

    def test_the_latest_schedule_time_is_that_of_the_points_in_runs(self, registry: Registry) -> None:
        def run(table_id: str, hours: int, **changes: object) -> RefreshRun:
            point = NOON + HOUR * hours
            return a_run(table_id, **{"schedule_time": point, "points": (point,)} | changes)

        for workflow_id in ("w1", "w2", "w3"):
            registry.definitions.put(a_definition(workflow_id))
        insert_runs(
            registry,
            run("w1", 2, status=RunStatus.FAILED),
            run("w1", 1),
            run("w1", 3, points=()),
            run("w1", 4, requested_at=NOON.replace(year=9999)),
            run("w2", 0),
            run("w3", 1, kind=RunKind.REBUILD, points=(), schedule_time=None),
            run("unpublished", 1),
        )

        assert registry.definitions.latest_schedule_times() == {"w1": NOON + HOUR * 2, "w2": NOON}


class CatalogsContract:
    """The contract for created catalogs."""

    def test_catalogs_are_found_as_they_were_put_and_ordered_by_name(self, registry: Registry) -> None:
        plain = CreatedCatalog(name="b", options={"type": "iceberg"})
        odd = CreatedCatalog(
            name="é`1", options={"password": "ü'\"%", "type": "jdbc"}, comment="old 'orders'"
        )
        upper = CreatedCatalog(name="B", options={})
        with registry.transaction() as transaction:
            for catalog in (odd, replace(plain, options={"type": "jdbc"}), upper, plain):
                transaction.catalogs.put(catalog)

        with registry.transaction() as transaction:
            found = transaction.catalogs.all()

        assert found == [upper, plain, odd]
        assert "ü" not in repr(found)

    def test_a_deleted_catalog_is_gone_and_deleting_twice_is_harmless(self, registry: Registry) -> None:
        kept, gone = (CreatedCatalog(name=name, options={}) for name in ("kept", "gone"))
        with registry.transaction() as transaction:
            transaction.catalogs.put(kept)
            transaction.catalogs.put(gone)

        with registry.transaction() as transaction:
            transaction.catalogs.delete("gone")
            transaction.catalogs.delete("gone")

        with registry.transaction() as transaction:
            assert transaction.catalogs.all() == [kept]

    def test_tables_with_a_connector_are_found_as_they_were_put_until_they_are_deleted(
        self, registry: Registry
    ) -> None:
        plain = ConnectorTable(name="`b`", columns=("`n` INT",), clauses="USING csv", connector="csv")
        odd = a_connector_table()
        with registry.transaction() as transaction:
            for table in (odd, replace(plain, clauses="USING orc"), plain):
                transaction.connector_tables.put(table)

        with registry.transaction() as transaction:
            before = transaction.connector_tables.all()
            transaction.connector_tables.delete("`b`")
            transaction.connector_tables.delete("`b`")

        with registry.transaction() as transaction:
            assert (before, transaction.connector_tables.all()) == ([plain, odd], [odd])

    def test_a_catalog_is_put_with_its_transaction_or_not_at_all(self, registry: Registry) -> None:
        def fail() -> None:
            with registry.transaction() as transaction:
                transaction.catalogs.put(CreatedCatalog(name="c", options={}))
                raise KeyError

        with pytest.raises(KeyError):
            fail()

        with registry.transaction() as transaction:
            assert transaction.catalogs.all() == []


class RegistryContract(
    TablesContract,
    LedgerContract,
    JobsContract,
    DefinitionsContract,
    CatalogsContract,
    FunctionsContract,
    TransactionsContract,
    ChangesContract,
):
    """The whole contract of the port `Registry`."""
