"""The net change that a refresh reads of a source is the difference of its two versions as multisets,
whatever happened between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

import pytest

from mt_core.spark.queries.lineage import LineageReader
from mt_core.spark.readings.row_images import COPIES, changed_rows
from mt_core.tables.engine import Query
from tests.depth import DEPTH, dice, rounds
from tests.integration.maintained_world import take_tables_for_large
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.integration.source_stories import MERGE_ON_READ, NAME, Layout, Step, StoredSource, counted, story

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900 * DEPTH)]

FORMAT_2, FORMAT_3 = "'format-version' = '2'", "'format-version' = '3'"
BY_FILE, BY_PARTITION = (f"'write.delete.granularity' = '{each}'" for each in ("file", "partition"))
LAYOUTS = {
    "copy-on-write 2": Layout(properties=FORMAT_2),
    "copy-on-write 3": Layout(properties=FORMAT_3, partitions="days(day)"),
    "merge-on-read 2": Layout(properties=f"{FORMAT_2}, {MERGE_ON_READ}, {BY_FILE}"),
    "merge-on-read 2 by partition": Layout(
        properties=f"{FORMAT_2}, {MERGE_ON_READ}, {BY_PARTITION}", partitions="k"
    ),
    "merge-on-read 3": Layout(properties=f"{FORMAT_3}, {MERGE_ON_READ}"),
    "merge-on-read 3 in partitions": Layout(
        properties=f"{FORMAT_3}, {MERGE_ON_READ}", partitions="bucket(2, id)"
    ),
    "orc": Layout(properties=f"{FORMAT_2}, {MERGE_ON_READ}, 'write.format.default' = 'orc'"),
    "avro": Layout(properties=f"{FORMAT_2}, 'write.format.default' = 'avro'"),
}


def net_change(source: StoredSource, columns: Sequence[str], old: str, new: str) -> Counter[str]:
    """Return how often more each row, of *columns*, is in the *new* version than in the *old* one."""
    world = source.world
    text = f"SELECT {', '.join(columns) or 'count(*)'} FROM {NAME}"
    query = Query(text=text, catalog="lake", namespace=(world.namespace,))
    lineage = LineageReader(world.session).read(query)
    net = changed_rows(world.session, lineage, lineage.sources[0], old, new, columns)
    assert set(columns) <= set(net.columns)
    changed = Counter[str]()
    for row in net.frame.select(*columns, COPIES).collect():
        changed[repr(tuple(row[:-1]))] += row[-1]
    return without_zeros(changed)


def difference(source: StoredSource, columns: Sequence[str], old: str, new: str) -> Counter[str]:
    """Return the difference of all rows of two versions, as plain Spark reads them."""
    before, after = (
        counted([[row[name] for name in columns] for row in source.rows(version)]) for version in (old, new)
    )
    after.subtract(before)
    return without_zeros(after)


def without_zeros(rows: Counter[str]) -> Counter[str]:
    return Counter({row: count for row, count in rows.items() if count})


class Follower:
    """Compares versions of a source while its story goes on, as tables that read it do."""

    def __init__(self, source: StoredSource, chance: Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.source, self.chance, self.monkeypatch = source, chance, monkeypatch

    def check(self, old: str, new: str) -> None:
        names, pick = list(self.source.columns), self.chance.random
        columns = names if pick() < 0.5 else [name for name in names if pick() < 0.3]
        with self.monkeypatch.context() as patch:
            if pick() < 0.25:
                take_tables_for_large(patch, False, files=True)
            found = net_change(self.source, columns, old, new)
        expected = difference(self.source, columns, old, new)
        assert found == expected, (columns, found - expected, expected - found)

    def follow(self, steps: Sequence[Step]) -> None:
        """Tell a story; compare each version with the one before, and at times with any other."""
        for number, step in enumerate(steps):
            with reported(steps[: number + 1]):
                self.source.tell(step)
                versions = self.source.versions
                if len(versions) > 1:
                    self.check(*versions[-2:])
                if versions and self.chance.random() < 0.5:
                    self.check(*self.chance.choices(versions, k=2))


@contextmanager
def reported(steps: Sequence[Step]) -> Iterator[None]:
    """Say with the story what fails in it."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"steps={list(steps)!r}")
        raise


def follow(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, chance: Random, layout: Layout, steps: int
) -> None:
    source = StoredSource(world, layout)
    source.create()
    Follower(source, chance, monkeypatch).follow(story(chance, steps))


@pytest.mark.parametrize("layout", ["copy-on-write 2", "merge-on-read 2", "merge-on-read 3"])
def test_the_net_change_of_a_source_is_the_difference_of_its_versions(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    follow(world, monkeypatch, dice(len(layout)), LAYOUTS[layout], 8)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_net_change_is_the_difference_after_long_stories(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    follow(world, monkeypatch, dice(len(layout)), LAYOUTS[layout], rounds(10, 60))
