"""GROUP BY over generated streams on a real Spark, against a model in Python of what each batch changes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from pyspark.sql import DataFrame

from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.driver.spark_driver import SparkDriver
from tests.depth import DEPTH
from tests.integration.change_scripts import (
    FEW_SCRIPTS,
    Moment,
    Row,
    Script,
    Signed,
    Told,
    duration,
    replay,
    scripts,
    untold,
)
from tests.integration.operator_stream import KIND, OperatorStream
from tests.integration.test_aggregates import aggregating

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600 * DEPTH)]

VIEWS = ("adds", "changes")
PLAIN = "SELECT k, count(*) AS n, count(v) AS c, sum(v) AS s, avg(v) AS a FROM {rows} GROUP BY k"
MAPS = (
    "SELECT k, min(v) AS least, max(v) AS most, count(DISTINCT v) AS d, sum(DISTINCT v) AS ds, "
    "count(*) FILTER (WHERE v > 2) AS f, sort_array(collect_list(v)) AS l, "
    "count(DISTINCT v) FILTER (WHERE v > 2) AS df, count_if(v = 1) AS i FROM {rows} GROUP BY k"
)
ALL_ROWS = "SELECT count(*) AS n, max(v) AS most FROM {rows}"
DISTINCT = "SELECT DISTINCT k, v FROM {rows}"
QUERIES = {"plain": PLAIN, "maps": MAPS, "all": ALL_ROWS, "distinct": DISTINCT}
CHOSEN = (
    *((name, rows) for name in ("plain", "maps") for rows in VIEWS),
    ("all", "changes"),
    ("distinct", "adds"),
    *((("all", "adds"), ("distinct", "changes")) if DEPTH > 1 else ()),
)
"""The queries of the stream, and the views that they read."""
_streams = count(1)


def united() -> str:
    """Return one query of the results of all queries, over rows that are only added and over rows
    that change.
    """
    packed = "to_json(struct(*), map('ignoreNullFields', 'false'))"
    return " UNION ALL ".join(
        f"SELECT '{name} {rows}' AS q, {packed} AS r FROM ({QUERIES[name].format(rows=rows)})"
        for name, rows in CHOSEN
    )


@dataclass
class Group:
    """The rows of a group, as sums in which a row that is taken back has the other sign,
    and as numbers of equal values.

    A value that expires stays in what was made of it until the next one that goes for good.
    """

    takes_back: bool
    expires: float = 0
    rows: int = 0
    known: int = 0
    sum: int = 0
    large: int = 0
    ones: int = 0
    values: dict[int | None, tuple[int, float]] = field(default_factory=dict)
    unlike: Counter[int] = field(default_factory=Counter)
    once: list[int] = field(default_factory=list)
    all: list[int] = field(default_factory=list)

    def change(self, batch: Sequence[tuple[int | None, bool]], moment: Moment) -> None:
        self.expires = moment.expires
        net = Counter[int | None]()
        for value, adds in batch:
            sign = 1 if adds else -1
            net[value] += sign
            self.rows += sign
            if value is not None:
                self.known, self.sum = self.known + sign, self.sum + sign * value
                self.large, self.ones = self.large + sign * (value > 2), self.ones + sign * (value == 1)
        went = [self._count(value, number, moment) for value, number in net.items() if number]
        if not self.takes_back:
            self.once += [value for value, _ in batch if value is not None]
            self.all = self.once
        if any(after < before for before, after in went):
            self.all = [value for value, number in self._living(moment) for _ in range(number)]
        if any(after == 0 < before for before, after in went):
            self.once = [value for value, _ in self._living(moment)]

    def _count(self, value: int | None, number: int, moment: Moment) -> tuple[int, int]:
        """Return how many equal values there were, and how many there are."""
        kept, expires = self.values.pop(value, (0, 0.0))
        before = kept if expires > moment.now else 0
        after = max(0, before + number)
        if after:
            self.values[value] = (after, moment.expires)
        if value is not None:
            self.unlike[value] += (after > 0) - (before > 0)
            if self.takes_back:
                self.once += [value] * (after > 0 and before == 0)
                self.all += [value] * (after - before)
        return before, after

    def _living(self, moment: Moment) -> list[tuple[int, int]]:
        return [
            (value, number)
            for value, (number, expires) in self.values.items()
            if value is not None and expires > moment.now
        ]

    def result(self, name: str) -> Row:
        """Return what a query gives of the group, after its key."""
        unlike = {value: number for value, number in self.unlike.items() if number}
        return {
            "plain": lambda: (self.rows, self.known, *self._sum_and_mean()),
            "maps": lambda: (
                min(self.once, default=None),
                max(self.once, default=None),
                sum(unlike.values()),
                sum(value * number for value, number in unlike.items()) if unlike else None,
                self.large,
                tuple(sorted(self.all)),
                sum(number for value, number in unlike.items() if value > 2),
                self.ones,
            ),
            "all": lambda: (self.rows, max(self.once, default=None)),
            "distinct": lambda: (),
        }[name]()

    def _sum_and_mean(self) -> tuple[int | None, float | None]:
        return (self.sum, self.sum / self.known) if self.known > 0 else (None, None)


KEYS: Mapping[str, Callable[[Row], Row]] = {
    "plain": lambda row: row[:1],
    "maps": lambda row: row[:1],
    "all": lambda _: (),
    "distinct": lambda row: row,
}


@dataclass
class AggregateModel:
    """The groups of one query over one of the views."""

    name: str
    takes_back: bool
    groups: dict[Row, Group] = field(default_factory=dict)

    def changes(self, batch: Sequence[Signed], moment: Moment) -> Iterator[tuple[str, Row]]:
        by_key: dict[Row, list[tuple[int | None, bool]]] = defaultdict(list)
        for row, adds in batch:
            if adds or self.takes_back:
                by_key[KEYS[self.name](row)].append((row[1], adds))
        for key, changes in by_key.items():
            yield from self._changed(key, changes, moment)

    def _changed(
        self, key: Row, changes: Sequence[tuple[int | None, bool]], moment: Moment
    ) -> Iterator[tuple[str, Row]]:
        group = self.groups.get(key)
        if group is None or group.expires <= moment.now:
            group, before = Group(self.takes_back), None
        else:
            before = (*key, *group.result(self.name))
        group.change(changes, moment)
        self.groups[key] = group
        after: Row | None = (*key, *group.result(self.name))
        if self.takes_back and group.rows <= 0:
            # A row that is taken back from a group that is not there changes nothing.
            del self.groups[key]
            after = None
        if before == after:
            return
        if before is not None:
            yield ("-D" if after is None else "-U"), before
        if after is not None:
            yield ("+I" if before is None else "+U"), after


class Models:
    """A model of each query."""

    def __init__(self) -> None:
        self._models = {f"{name} {rows}": AggregateModel(name, rows == "changes") for name, rows in CHOSEN}

    def changes(self, batch: Sequence[Signed], moment: Moment) -> Told:
        return Told(
            (name, kind, row)
            for name, model in self._models.items()
            for kind, row in model.changes(batch, moment)
        )


@pytest.fixture
def start(module_driver: SparkDriver, tmp_path: Path) -> Iterator[Callable[..., OperatorStream]]:
    session, made = module_driver.new_session(), list[OperatorStream]()
    session.conf.set("spark.sql.shuffle.partitions", "1")

    def started(operator: Callable[[DataFrame], DataFrame]) -> OperatorStream:
        for each in made:
            each.stop()
        columns = f"k STRING, v INT, {KIND} TINYINT"
        made.append(OperatorStream(session, tmp_path / str(next(_streams)), columns, operator))
        return made[-1]

    with active_session(session):
        yield started
    for each in made:
        each.stop()


VALUES = (("a", "b", None), (None, 1, 2, 3, 4))
"""Of the columns."""


@pytest.mark.skipif(DEPTH > 1, reason="a deep run has other scripts")
def test_the_script_tells_each_ttl_of_each_query_from_others() -> None:
    assert untold(Models, *VALUES) == set()


@FEW_SCRIPTS
@given(script=scripts(*VALUES))
def test_each_batch_changes_the_groups_as_a_model_says(
    start: Callable[..., OperatorStream], script: Script
) -> None:
    replay(script, start, lambda ttl: aggregating(united(), duration(ttl)), Models(), ("k", "v"))
