"""Snapshots that no branch has before they are published: what a table then is,
whatever was committed to it meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from mt_core.model.run import RefreshRun
from mt_core.tables.engine import Staged, Write
from tests.integration.maintained_world import INCREMENTAL
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

QUERY = "SELECT id, id * 2 AS twice FROM o"


@dataclass
class Kept:
    """`mt` shows the rows of `o`; `pending` has for each write since whether its snapshot was pending."""

    world: RefreshWorld
    pending: list[bool] = field(default_factory=list)

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


@pytest.fixture
def kept(world: RefreshWorld, monkeypatch: pytest.MonkeyPatch) -> Kept:
    world.spark("CREATE TABLE o (id INT) USING iceberg", "INSERT INTO o VALUES (1), (2)")
    world.create("mt", QUERY, clauses=INCREMENTAL)
    kept, write = Kept(world), world.engine.writes.write

    def noted(asked: Write) -> Staged:
        staged = write(asked)
        kept.pending.append(staged.pending is not None)
        return staged

    monkeypatch.setattr(world.engine.writes, "write", noted)
    return kept


def test_few_rows_are_published_by_the_commit_that_adds_their_snapshot(kept: Kept) -> None:
    before = kept.table("metadata_log_entries", "file")

    runs = [kept.refresh(), kept.refresh()]

    # Open and publish.
    assert len(kept.table("metadata_log_entries", "file")) - len(before) == 2 * len(runs)
    assert [(run.strategy, run.rows_inserted) for run in runs] == [("append", 1), ("append", 1)]
    assert kept.pending == [True, True]
    assert kept.table("refs", "name") == [("main",)]
    assert [snapshot for (snapshot,) in kept.table("history", "snapshot_id")][-2:] == [
        int(run.snapshot_id or 0) for run in runs
    ]


def test_a_table_whose_properties_change_before_the_publish_has_the_rows_once(kept: Kept) -> None:
    alter = f"ALTER TABLE lake.{kept.world.namespace}.mt SET TBLPROPERTIES ('kept-by' = 'me')"

    run = kept.refresh(before="publish: commit", do=lambda: kept.world.spark(alter))

    assert (run.strategy, kept.pending) == ("append", [True, False])
    assert kept.refresh().strategy == "append"


def test_rows_of_another_writer_that_come_before_the_publish_are_replaced(kept: Kept) -> None:
    foreign = f"INSERT INTO lake.{kept.world.namespace}.mt VALUES (9, 9)"

    run = kept.refresh(before="publish: commit", do=lambda: kept.world.spark(foreign))

    assert (run.strategy, kept.pending) == ("recompute", [True, False])


def test_a_branch_that_another_has_dropped_is_not_needed(kept: Kept) -> None:
    def drop() -> None:
        (name,) = [name for (name,) in kept.table("refs", "name") if name != "main"]
        kept.world.spark(f"ALTER TABLE lake.{kept.world.namespace}.mt DROP BRANCH `{name}`")

    run = kept.refresh(before="publish: commit", do=drop)

    assert (run.strategy, kept.pending) == ("append", [True, False])
    assert kept.table("refs", "name") == [("main",)]
