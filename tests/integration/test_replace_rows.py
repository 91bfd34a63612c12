"""Which way rows of a table are replaced by key: the table and the number of rows say so,
and the rows are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from mt_core.errors import QueryFailed
from mt_core.incremental.strategy import CountsDiffer
from mt_core.model.storage import MetadataChange
from mt_core.model.table import TableIdentifier
from mt_core.spark.catalogs.storage_catalogs import Catalogs
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.jvm_objects import active_session, text_map
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint
from mt_core.spark.iceberg.find_rows import TableVersion
from mt_core.spark.iceberg.held_commit import HeldCommit
from mt_core.spark.iceberg.metadata import commit as committed
from mt_core.spark.iceberg.metadata import metadata_of
from mt_core.spark.iceberg.replace_rows import AddedRows, AllRows, Change, DeleteModes, replace_rows
from mt_core.spark.iceberg.replacement import Replacement
from mt_core.spark.iceberg.temporary_views import temporary_view
from mt_core.spark.incremental.table_change import TableChange, counts_checked
from tests.support.started_jobs import started_jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

GONE, COME = [(2,), (4,), (9,), (None,)], [(2, "b2"), (5, "e"), (None, "n2")]
BEFORE = [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (None, "n")]
AFTER = [(1, "a"), (2, "b2"), (3, "c"), (5, "e"), (None, "n2")]
EQUALITY, POSITIONS, VECTORS = "added-equality-deletes", "added-position-deletes", "added-dvs"
COPIES = "deleted-data-files"
MODE = "'write.merge.mode' = '{}'"
KINDS = {
    "without a merge mode": ("", POSITIONS, 0),
    "merge-on-read": (f"TBLPROPERTIES ({MODE.format('merge-on-read')})", POSITIONS, 0),
    "copy-on-write": (f"TBLPROPERTIES ({MODE.format('copy-on-write')})", COPIES, None),
    "format 1": ("TBLPROPERTIES ('format-version' = '1')", COPIES, None),
    "format 3": (f"TBLPROPERTIES ('format-version' = '3', {MODE.format('merge-on-read')})", VECTORS, None),
    "partitions": (
        f"PARTITIONED BY (bucket(2, v)) TBLPROPERTIES ({MODE.format('merge-on-read')})",
        POSITIONS,
        None,
    ),
    "partitions without a merge mode": ("PARTITIONED BY (bucket(2, v))", COPIES, None),
    "equality deletes": ("TBLPROPERTIES ('write.upsert' = 'equality-delete')", EQUALITY, 0),
}


@dataclass(frozen=True, kw_only=True)
class Place:
    """A table of two files with a branch, which is changed."""

    session: SparkSession
    catalogs: Catalogs
    name: TableIdentifier

    def commit(self, **options: Any) -> HeldCommit:
        metadata = metadata_of(self.session, self.catalogs.load_table(self.name))
        return HeldCommit.on(
            self.session, self.name, metadata, metadata.main, summary={"team": "me"}, **options
        )

    def carry_out(self, commit: HeldCommit, change: Change, modes: DeleteModes | None = None) -> None:
        """Make the change a snapshot, and that the branch `changed`."""
        replace_rows(commit, change, modes)
        assert commit.pending is not None
        metadata = metadata_of(self.session, self.catalogs.load_table(self.name))
        branches = {"changed": str(commit.pending.snapshotId())}
        change_of_metadata = MetadataChange(branches=branches, pending=commit.pending)
        committed(self.session, str(self.name), metadata, change_of_metadata)

    def relation(self, rows: list[tuple[Any, ...]], columns: str, *, many: bool = False) -> ComputedRows:
        frame = self.session.createDataFrame(rows, columns)
        if many:
            return ComputedRows.of_frame(frame)
        return collect_or_checkpoint(frame)

    def replace(self, *, many: bool = False, again: bool = False) -> tuple[Mapping[str, str], int]:
        """Replace rows by key; return the summary of the snapshot, and how many jobs that took."""
        commit = self.commit()
        values, rows = (
            self.relation(GONE, "k INT", many=many),
            self.relation(COME, "k INT, v STRING", many=many),
        )
        modes = None if again else DeleteModes.of(self.session, commit.table)
        with temporary_view(values.frame) as gone:
            before = started_jobs(self.session)
            self.carry_out(commit, Replacement(keys=("k",), values=values, gone=gone, rows=rows), modes)
            jobs = started_jobs(self.session) - before
        return self.summary(), jobs

    def apply(self, net: list[tuple[Any, ...]], *, by_task: bool = False) -> None:
        """Apply a net change by value. A single task rewrites the table if *by_task* is set."""
        commit = self.commit()
        modes = None if by_task else DeleteModes.of(self.session, commit.table)
        with ExitStack() as stack, counts_checked():
            changes = TableChange(
                session=self.session,
                lineage=None,
                at=TableVersion(table=commit.table, snapshot=str(commit.base)),
                name=commit.before,
                columns=("k", "v"),
                modes=modes,
                small=by_task,
                stack=stack,
            )
            rows = self.relation(net, "k INT, v STRING, n INT")
            self.carry_out(commit, changes.by_value(rows, "n"), modes)

    def summary(self) -> Mapping[str, str]:
        table = self.catalogs.load_table(self.name)
        return text_map(self.session, table.snapshot("changed").summary())

    def rows(self, branch: str = "changed") -> list[tuple[Any, ...]]:
        found = self.session.sql(f"SELECT k, v FROM {self.name.sql} VERSION AS OF '{branch}'").collect()
        return sorted(map(tuple, found), key=repr)


class Places:
    """Makes tables."""

    def __init__(self, driver: SparkDriver) -> None:
        self.session, self.catalogs = driver.session, SparkContexts(driver).catalogs
        self.namespace = f"n{uuid4().hex[:12]}"
        self.session.sql(f"CREATE NAMESPACE lake.{self.namespace}")

    def make(self, clauses: str = "", *, rows: bool = True) -> Place:
        name = TableIdentifier("lake", (self.namespace,), f"t{uuid4().hex[:12]}")
        self.session.sql(f"CREATE TABLE {name.sql} (k INT, v STRING) USING iceberg {clauses}")
        place = Place(session=self.session, catalogs=self.catalogs, name=name)
        for part in (BEFORE[:2], BEFORE[2:]) if rows else ([],):
            place.relation(list(part), "k INT, v STRING").frame.coalesce(1).writeTo(name.sql).append()
        self.session.sql(f"ALTER TABLE {name.sql} CREATE BRANCH changed")
        return place


@pytest.fixture(scope="module")
def places(module_driver: SparkDriver) -> Iterator[Places]:
    with active_session(module_driver.session):
        yield Places(module_driver)


@pytest.mark.parametrize(("clauses", "way", "jobs"), list(KINDS.values()), ids=list(KINDS))
def test_few_rows_go_as_the_table_allows(places: Places, clauses: str, way: str, jobs: int | None) -> None:
    place = places.make(clauses)

    summary, started = place.replace()

    assert (place.rows(), place.rows("main")) == (AFTER, BEFORE)
    assert {each for each in (EQUALITY, POSITIONS, VECTORS, COPIES) if each in summary} - {way} <= (
        {POSITIONS} if way == VECTORS else set()
    )
    assert way in summary
    assert summary["team"] == "me"
    if jobs is not None:
        assert started == jobs


@pytest.mark.parametrize(
    ("kind", "way"),
    [("merge-on-read", POSITIONS), ("without a merge mode", COPIES), ("equality deletes", EQUALITY)],
)
def test_rows_that_are_not_at_hand_go_by_a_job(places: Places, kind: str, way: str) -> None:
    place = places.make(KINDS[kind][0])

    summary, _ = place.replace(many=True)

    assert place.rows() == AFTER
    assert way in summary


def test_rows_that_are_written_again_leave_no_file(places: Places) -> None:
    place = places.make(KINDS["equality deletes"][0])

    summary, _ = place.replace(again=True)

    assert (place.rows(), summary[COPIES]) == (AFTER, "2")


@pytest.mark.parametrize("kind", ["without a merge mode", "equality deletes"])
def test_rows_that_come_into_an_empty_table_are_added_without_a_job(places: Places, kind: str) -> None:
    place = places.make(KINDS[kind][0], rows=False)

    summary, jobs = place.replace()

    assert (place.rows(), jobs) == (sorted(COME, key=repr), 0)
    assert summary["added-records"] == summary["total-records"] == "3"
    assert EQUALITY not in summary


@pytest.mark.parametrize("clauses", ["", "PARTITIONED BY (v)"])
def test_no_rows_are_added_without_a_job_in_a_snapshot_of_its_own(places: Places, clauses: str) -> None:
    place = places.make(clauses)
    commit, nothing, before = (
        place.commit(),
        place.relation([], "k INT, v STRING"),
        started_jobs(places.session),
    )

    place.carry_out(commit, AddedRows(rows=nothing))

    assert started_jobs(places.session) == before
    assert (place.rows(), place.summary()["team"]) == (BEFORE, "me")


def test_options_of_the_write_go_to_the_writer_of_spark(places: Places) -> None:
    place = places.make()
    rows = AllRows(rows=place.relation(list(AFTER), "k INT, v STRING"))

    place.carry_out(place.commit(options={"write-format": "avro"}), rows)

    files = places.session.sql(
        f"SELECT file_path FROM {place.name.sql}.files VERSION AS OF 'changed'"
    ).collect()
    assert (place.rows(), {row.file_path.rpartition(".")[2] for row in files}) == (AFTER, {"avro"})


def test_options_of_the_write_are_taken_also_for_no_rows(places: Places) -> None:
    place = places.make()

    commit = place.commit(options={"snapshot-property.owner": "you"})
    place.carry_out(commit, AddedRows(rows=place.relation([], "k INT, v STRING")))

    assert (place.summary()["team"], place.summary()["owner"]) == ("me", "you")


def test_equality_deletes_are_not_written_beside_files_of_other_partitions(places: Places) -> None:
    place = places.make(KINDS["equality deletes"][0])
    places.session.sql(f"ALTER TABLE {place.name.sql} ADD PARTITION FIELD k")

    summary, _ = place.replace()

    assert place.rows() == AFTER
    assert EQUALITY not in summary


def test_null_in_a_column_that_is_not_null_is_refused_by_its_name(places: Places) -> None:
    place = places.make()
    places.session.sql(f"TRUNCATE TABLE {place.name.sql}")
    place.catalogs.load_table(place.name).updateSchema().allowIncompatibleChanges().requireColumn(
        "v"
    ).commit()
    rows = AddedRows(rows=place.relation([(1, None)], "k INT, v STRING"))

    with pytest.raises(QueryFailed, match="NULL in a column that is NOT NULL: one of `v`"):
        replace_rows(place.commit(), rows, None)


@pytest.mark.parametrize("kind", ["merge-on-read", "copy-on-write", "equality deletes", "a single task"])
def test_a_net_change_is_applied_only_if_the_table_has_the_removed_rows(places: Places, kind: str) -> None:
    by_task = kind not in KINDS
    place = places.make("" if by_task else KINDS[kind][0])

    for missing in [(2, "b", -2), (2, "other", -1), (7, "g", -1)]:
        with pytest.raises(CountsDiffer):
            place.apply([missing, (6, "f", 1)], by_task=by_task)
    assert place.rows() == BEFORE

    place.apply([(2, "b", -1), (None, "n", -1), (2, "b2", 1), (6, "f", 2)], by_task=by_task)
    assert place.rows() == [(1, "a"), (2, "b2"), (3, "c"), (4, "d"), (6, "f"), (6, "f")]
