from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from uuid import uuid4

import pytest

from mt_core.errors import Canceled, EngineError, QueryFailed, RequestInvalid
from mt_core.model.partition import WHOLE, PartitionSpec, Scope
from mt_core.model.storage import MetadataChange
from mt_core.model.table import Column, TableIdentifier
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.refresh.engine import spark_engine
from mt_core.tables.engine import (
    Query,
    Staged,
    StorageSpec,
    Write,
)

pytestmark = pytest.mark.spark

COLUMNS = (
    Column(name="day", type="date"),
    Column(name="hh", type="int"),
    Column(name="v", type="string"),
)
_numbers = count(1)


class Target:
    """A table of two partition columns over a source, and runs on it."""

    def __init__(self, driver: SparkDriver) -> None:
        number = next(_numbers)
        self.session, self.engine = driver.session, spark_engine(SparkContexts(driver))
        self.source = f"lake.default.w_src_{number}"
        self.identifier, self.table_id = TableIdentifier("lake", ("default",), f"w_{number}"), str(uuid4())
        self.runs = count(1)

    def refresh(
        self, scope: Scope = WHOLE, text: str | None = None, columns: tuple[Column, ...] = COLUMNS
    ) -> Staged:
        """Run, and publish what was staged."""
        write = self.prepared(scope, text, columns)
        staged = self.engine.writes.write(write)
        change = MetadataChange(publish=staged.snapshot.snapshot_id, pending=staged.pending)
        self.engine.metadata.swap(self.identifier, self.engine.metadata.load(self.identifier), change)
        return staged

    def prepared(
        self, scope: Scope = WHOLE, text: str | None = None, columns: tuple[Column, ...] = COLUMNS
    ) -> Write:
        run = f"r{next(self.runs)}"
        main = self.engine.metadata.load(self.identifier).main
        assert main is not None
        query = Query(text=text or f"SELECT * FROM {self.source}", catalog="lake", namespace=("default",))
        return Write(
            job_id=uuid4().hex,
            table=self.identifier,
            base=main,
            query=query,
            columns=columns,
            vector=self.engine.sources.read_vector(query),
            scope=scope,
            summary={"freshtable.run-id": run, "freshtable.sources": '{"a": "ü"}'},
            options={"write.distribution-mode": "none", "other": "ignored"},
        )

    def rows(self) -> list[tuple[str, ...]]:
        return sorted(
            tuple(str(value) for value in row) for row in self.session.table(self.identifier.sql).collect()
        )


@pytest.fixture
def target(spark_driver: SparkDriver) -> Iterator[Target]:
    target = Target(spark_driver)
    target.session.sql(f"CREATE TABLE {target.source} (day DATE, hh INT, v STRING) USING iceberg")
    target.session.sql(
        f"INSERT INTO {target.source} VALUES (DATE '2026-01-01', 1, 'a'), (DATE '2026-01-01', 2, 'b'), "
        "(DATE '2026-01-02', 1, 'c'), (NULL, NULL, 'n')"
    )
    target.engine.storage.create_storage(
        StorageSpec(
            identifier=target.identifier,
            table_id=target.table_id,
            columns=COLUMNS,
            partition_keys=("day", "hh"),
        )
    )
    yield target
    target.engine.storage.drop_storage(target.identifier, target.table_id, "")
    target.session.sql(f"DROP TABLE {target.source}")


def scope(*specs: dict[str, str]) -> Scope:
    return Scope.of(PartitionSpec.of(spec) for spec in specs)


def test_a_partial_spec_replaces_every_partition_that_agrees_with_it(target: Target) -> None:
    target.refresh()
    target.session.sql(f"UPDATE {target.source} SET v = upper(v)")

    staged = target.refresh(scope({"day": "2026-01-01"}))

    assert staged.snapshot.added_rows == 2
    assert target.rows() == [
        ("2026-01-01", "1", "A"),
        ("2026-01-01", "2", "B"),
        ("2026-01-02", "1", "c"),
        ("None", "None", "n"),
    ]


def test_a_mixed_scope_replaces_the_union_of_its_specs(target: Target) -> None:
    target.refresh()
    target.session.sql(f"UPDATE {target.source} SET v = upper(v)")

    target.refresh(scope({"DAY": "2026-01-01", "hh": "2"}, {"day": "2026-01-02"}))

    assert target.rows() == [
        ("2026-01-01", "1", "a"),
        ("2026-01-01", "2", "B"),
        ("2026-01-02", "1", "C"),
        ("None", "None", "n"),
    ]


def test_a_partition_that_became_empty_is_empty_afterwards(target: Target) -> None:
    target.refresh()
    target.session.sql(f"DELETE FROM {target.source} WHERE day = DATE '2026-01-02'")

    staged = target.refresh(scope({"day": "2026-01-02"}, {"day": "2026-01-03"}))

    assert staged.snapshot.added_rows == 0
    assert [row[2] for row in target.rows()] == ["a", "b", "n"]


def test_columns_go_by_name_and_those_that_were_appended_to_the_table_are_null(target: Target) -> None:
    target.engine.storage.add_columns(
        target.identifier, (Column(name="note", type="string"), Column(name="n", type="bigint"))
    )

    target.refresh(text=f"SELECT v, HH, day FROM {target.source} WHERE hh = 2")

    assert target.rows() == [("2026-01-01", "2", "b", "None", "None")]


def test_a_failing_query_leaves_the_table_as_it_is(target: Target) -> None:
    target.refresh()
    before = target.rows()

    with pytest.raises(QueryFailed) as caught:
        target.refresh(text=f"SELECT day, CAST(1 / (hh - 2) AS INT) AS hh, v FROM {target.source}")

    assert caught.value.error_class == "DIVIDE_BY_ZERO"
    assert "VERSION AS OF" not in caught.value.message
    assert target.rows() == before


def test_rows_of_another_type_are_refused_before_anything_runs(target: Target) -> None:
    with pytest.raises(QueryFailed) as caught:
        target.refresh(text=f"SELECT day, v AS hh, v FROM {target.source}")

    assert caught.value.error_class == "COLUMNS_CHANGED"
    assert "column hh is STRING now and was INT" in caught.value.message


def test_more_columns_than_the_table_has_are_refused(target: Target) -> None:
    with pytest.raises(QueryFailed, match="also returns more, which the table does not have"):
        target.refresh(text=f"SELECT *, 1 AS more FROM {target.source}")


def test_a_partition_value_that_does_not_fit_its_type_is_named(target: Target) -> None:
    with pytest.raises(RequestInvalid, match=r"PARTITION \(hh = 'noon'\)"):
        target.refresh(scope({"hh": "noon"}))


def test_rows_follow_the_snapshot_on_which_they_are_based_wherever_main_is(target: Target) -> None:
    target.refresh()
    write = target.prepared()
    target.refresh()

    staged = target.engine.writes.write(write)

    assert staged.pending is not None
    assert staged.pending.parentId() == int(write.base)


def test_a_cancelled_job_does_not_write(target: Target) -> None:
    write = target.prepared()
    target.engine.jobs.cancel(write.job_id)

    with pytest.raises(Canceled):
        target.engine.writes.write(write)

    assert target.engine.metadata.load(target.identifier).main == write.base


def test_a_view_that_changed_after_the_vector_was_read_stops_the_write(target: Target) -> None:
    view = f"{target.source}_view"
    target.session.sql(f"CREATE VIEW {view} AS SELECT * FROM {target.source}")
    write = target.prepared(text=f"SELECT * FROM {view}")
    target.session.sql(f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {target.source} WHERE hh = 1")
    target.engine.sources.read_vector(write.query)

    with pytest.raises(EngineError, match="changed while the refresh was starting"):
        target.engine.writes.write(write)

    target.session.sql(f"DROP VIEW {view}")


def test_work_on_another_thread_sees_the_same_catalogs(target: Target) -> None:
    with ThreadPoolExecutor(2) as threads:
        vectors = list(
            threads.map(target.engine.sources.read_vector, [Query(text=f"SELECT * FROM {target.source}")] * 4)
        )
        columns = (
            threads.submit(target.engine.queries.analyse, Query(text=f"SELECT * FROM {target.source}"))
            .result()
            .columns
        )

    assert len(set(map(str, vectors))) == 1
    assert [column.name for column in columns] == ["day", "hh", "v"]
