"""Snapshots that a table does not have before they are published: what a table then is,
whatever was committed to it meanwhile, and how many commits a refresh makes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mt_core.errors import EngineError
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.spark.iceberg.held_commit import HeldCommit
from mt_core.tables.engine import Staged, Write
from tests.integration.maintained_world import INCREMENTAL
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

QUERY = "SELECT id, id * 2 AS twice FROM o"


@dataclass
class Kept:
    """`mt` shows the rows of `o`; `written` says how often rows were computed and written since."""

    world: RefreshWorld
    written: int = 0

    def refresh(self, *, before: str = "", do: Callable[[], object] | None = None) -> RefreshRun:
        """Append a row to the source and refresh; *do* happens once, before the step *before*."""
        self.world.spark("INSERT INTO o SELECT max(id) + 1 FROM o")
        run_id = self.world.request_tick("mt", self.world.next_point())
        self.world.work(before=before, do=do)
        run = self.world.run(run_id)
        assert (self.world.rows("mt"), run.error) == (self.world.plain(QUERY), None)
        return run

    def table(self, text: str, *columns: str) -> list[tuple[object, ...]]:
        """Return columns of one of the tables that Iceberg has about `mt`."""
        named = ", ".join(columns)
        return [
            tuple(row)
            for row in self.world.session.sql(
                f"SELECT {named} FROM lake.{self.world.namespace}.mt.{text}"
            ).collect()
        ]

    def files_on_disk(self) -> set[object]:
        location = self.world.engine.metadata.load(self.world.table("mt").identifier).location
        data = Path(location.removeprefix("file:")) / "data"
        return {f"{location}/data/{path.relative_to(data)}" for path in data.rglob("*.parquet")}


@pytest.fixture
def kept(world: RefreshWorld, monkeypatch: pytest.MonkeyPatch) -> Kept:
    world.spark("CREATE TABLE o (id INT) USING iceberg", "INSERT INTO o VALUES (1), (2)")
    world.create("mt", QUERY, clauses=INCREMENTAL)
    kept, write = Kept(world), world.engine.writes.write

    def noted(asked: Write) -> Staged:
        kept.written += 1
        return write(asked)

    monkeypatch.setattr(world.engine.writes, "write", noted)
    return kept


def test_few_rows_are_published_by_the_commit_that_adds_their_snapshot(kept: Kept) -> None:
    before = kept.table("metadata_log_entries", "file")

    runs = [kept.refresh(), kept.refresh()]

    assert len(kept.table("metadata_log_entries", "file")) - len(before) == len(runs)
    assert [(run.strategy, run.rows_inserted) for run in runs] == [("append", 1), ("append", 1)]
    assert kept.written == 2
    assert kept.table("refs", "name") == [("main",)]
    totals = kept.table("snapshots", "summary['total-records']", "summary['total-data-files']")
    assert totals[-3:] == [("2", "1"), ("3", "2"), ("4", "3")]
    assert [snapshot for (snapshot,) in kept.table("history", "snapshot_id")][-2:] == [
        int(run.snapshot_id or 0) for run in runs
    ]


def test_a_table_whose_properties_change_before_the_publish_has_the_rows_once(kept: Kept) -> None:
    alter = f"ALTER TABLE lake.{kept.world.namespace}.mt SET TBLPROPERTIES ('kept-by' = 'me')"

    run = kept.refresh(before="publish: commit", do=lambda: kept.world.spark(alter))

    assert (run.strategy, kept.written) == ("append", 1)
    assert kept.refresh().strategy == "append"


def test_rows_of_another_writer_that_come_before_the_publish_are_replaced(kept: Kept) -> None:
    foreign = f"INSERT INTO lake.{kept.world.namespace}.mt VALUES (9, 9)"

    run = kept.refresh(before="publish: commit", do=lambda: kept.world.spark(foreign))

    assert (run.strategy, kept.written) == ("recompute", 2)
    assert kept.files_on_disk() == {path for (path,) in kept.table("all_files", "file_path")}


def test_a_commit_that_comes_while_the_snapshot_is_made_is_not_lost(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, foreign = HeldCommit.make, [f"INSERT INTO lake.{kept.world.namespace}.mt VALUES (9, 9)"]

    def overtaken(commit: HeldCommit, update: Any, *, removes: bool = False) -> None:
        while foreign:
            kept.world.spark(foreign.pop())
        make(commit, update, removes=removes)

    monkeypatch.setattr(HeldCommit, "make", overtaken)

    run = kept.refresh()

    assert (run.strategy, kept.written) == ("recompute", 2)


def test_a_snapshot_that_another_writer_has_staged_meanwhile_does_not_matter_but_for_its_number(
    kept: Kept,
) -> None:
    mine = f"lake.{kept.world.namespace}.mt"
    kept.world.spark(f"ALTER TABLE {mine} CREATE BRANCH audit")

    def stage() -> None:
        kept.world.spark(f"INSERT INTO {mine}.branch_audit VALUES (9, 9)")

    run = kept.refresh(before="publish: commit", do=stage)

    assert (run.strategy, kept.written) == ("append", 1)
    assert sorted(kept.table("refs", "name")) == [("audit",), ("main",)]


def test_all_rows_are_published_by_one_commit_though_a_job_writes_them(kept: Kept) -> None:
    before = kept.table("metadata_log_entries", "file")

    run_id = kept.world.request("mt")
    kept.world.work()

    assert (kept.world.run(run_id).status, kept.world.run(run_id).strategy) == (
        RunStatus.SUCCEEDED,
        "recompute",
    )
    assert len(kept.table("metadata_log_entries", "file")) - len(before) == 1
    assert kept.table("refs", "name") == [("main",)]
    assert kept.world.rows("mt") == kept.world.plain(QUERY)


def test_all_rows_replace_those_of_another_writer_without_being_computed_again(kept: Kept) -> None:
    foreign = f"INSERT INTO lake.{kept.world.namespace}.mt VALUES (9, 9)"

    run_id = kept.world.request("mt")
    kept.world.work(before="publish: commit", do=lambda: kept.world.spark(foreign))

    assert (kept.world.run(run_id).status, kept.written) == (RunStatus.SUCCEEDED, 1)
    assert kept.world.rows("mt") == kept.world.plain(QUERY)


def test_files_of_a_published_snapshot_are_not_deleted_as_those_of_one_that_was_given_up(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged: list[Staged] = []
    write = kept.world.engine.writes.write
    monkeypatch.setattr(
        kept.world.engine.writes, "write", lambda asked: staged.append(write(asked)) or staged[-1]
    )
    kept.refresh()

    kept.world.engine.metadata.discard(staged[0])

    assert kept.world.rows("mt") == kept.world.plain(QUERY)


def test_a_refresh_without_a_change_commits_nothing(kept: Kept) -> None:
    before = kept.table("metadata_log_entries", "file")

    run_id = kept.world.request_tick("mt", kept.world.next_point())
    kept.world.work()

    assert kept.world.run(run_id).status is RunStatus.SKIPPED
    assert kept.table("metadata_log_entries", "file") == before


def test_a_refresh_whose_change_fails_before_the_publish_commits_nothing(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = kept.table("metadata_log_entries", "file")

    def refused(_write: Write) -> Staged:
        raise EngineError("the disk is full")

    monkeypatch.setattr(kept.world.engine.writes, "write", refused)
    kept.world.spark("INSERT INTO o VALUES (3)")
    run_id = kept.world.request_tick("mt", kept.world.next_point())
    kept.world.work()

    assert kept.world.run(run_id).status is RunStatus.FAILED
    assert kept.table("metadata_log_entries", "file") == before
