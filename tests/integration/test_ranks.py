"""Ranks, limits and last rows on a real Spark: each operator gives what a plain model of it gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain, count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from mt_core.plans.operators import OperatorState
from mt_core.plans.policies import operator_policy
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.streams.materialization import materialized
from mt_core.spark.streams.operators.java_operators import java_operator
from mt_core.spark.streams.operators.java_states import java_state
from mt_core.spark.streams.operators.rankings import as_java_list, java_keys
from tests.depth import DEPTH
from tests.integration.change_scripts import (
    FEW_SCRIPTS,
    Moment,
    Row,
    Script,
    Signed,
    Told,
    duration,
    packed,
    replay,
    scripts,
    untold,
)
from tests.integration.operator_stream import KIND, OperatorStream, through

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600 * DEPTH)]

COLUMNS = ("k", "v", "n")
TYPES = f"k STRING, v INT, n INT, {KIND} TINYINT"
_streams = count(1)


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """What an operator is asked for: `order` is `v` or `-v`, or nothing for the order of arrival;
    `keyed` is by `k`.
    """

    changes: bool = False
    order: str = ""
    latest: bool = False
    first: int = 1
    last: int = 1
    numbered: bool = False
    keyed: bool = True

    def plan(self, session: SparkSession, plan: Any, ttl: int) -> Any:
        ordered = [_sort_order(session, plan, self.order)] if self.order else []
        ranking = java_operator(session, "Ranking")(
            as_java_list(session, ordered), self.latest, self.first, self.last
        )
        number = _attribute(session, "1 AS rn") if self.numbered else None
        keys, kept = _keys(session, plan, keyed=self.keyed), _kept(session, plan, ttl)
        if self.changes:
            return java_operator(session, "ChangedRanks").of(plan, keys, ranking, number, kept)
        if self.last == 1:
            return java_operator(session, "SingleRows").of(plan, keys, ranking, kept)
        return java_operator(session, "AddedRanks").of(plan, keys, ranking, number, kept)

    def place(self, row: Row) -> Any:
        """Return what is less the earlier a row stands in the order."""
        value = row[1]
        return {
            "": (),
            "v": (value is not None, value or 0),
            "-v": (value is None, -(value or 0)),
        }[self.order]


@dataclass
class Entry:
    """Rows that are equal, and stand together."""

    row: Row
    count: int
    arrival: int
    expires: float


@dataclass
class Kept:
    """The rows that are kept of one key."""

    asked: Ranked
    entries: list[Entry] = field(default_factory=list)
    arrivals: Iterator[int] = field(default_factory=count)

    def changes(self, batch: Sequence[Signed], moment: Moment) -> Iterator[tuple[str, Row]]:
        self.entries = [each for each in self.entries if each.expires > moment.now]
        before = self._ranked()
        if self.asked.changes:
            self._change(batch, moment)
        else:
            came = [Entry(row, 1, next(self.arrivals), moment.expires) for row, _ in batch]
            self.entries = self._in_order([*self.entries, *came])[: self.asked.last]
        return difference(before, self._ranked(), self.asked.first if self.asked.numbered else None)

    def _change(self, batch: Sequence[Signed], moment: Moment) -> None:
        sums = Counter[Row]()
        for row, adds in batch:
            sums[row] += 1 if adds else -1
        last = {row: place for place, (row, _) in enumerate(batch)}
        for row in sorted((row for row in sums if sums[row]), key=lambda row: last[row]):
            present = next((each for each in self.entries if each.row == row), None)
            if present is None:
                # It is taken back after it was forgotten, unless it is added.
                present = Entry(row, 0, next(self.arrivals), 0)
                self.entries.append(present)
            present.count, present.expires = present.count + sums[row], moment.expires
            if sums[row] > 0 and self.asked.latest:
                present.arrival = next(self.arrivals)
        self.entries = [each for each in self.entries if each.count > 0]

    def _in_order(self, entries: Iterable[Entry]) -> list[Entry]:
        ordered = sorted(entries, key=lambda each: -each.arrival if self.asked.latest else each.arrival)
        return sorted(ordered, key=lambda each: self.asked.place(each.row))

    def _ranked(self) -> list[Row]:
        rows = [each.row for each in self._in_order(self.entries) for _ in range(each.count)]
        return rows[self.asked.first - 1 : self.asked.last]


def difference(before: Sequence[Row], after: Sequence[Row], number: int | None) -> Iterator[tuple[str, Row]]:
    """Yield what makes *before* into *after*; with the *number* of the first row also those
    that have another number.
    """
    gone: list[Row | None]
    came: list[Row | None]
    if number is None:
        old, new = Counter(before), Counter(after)
        gone, came = list((old - new).elements()), list((new - old).elements())
    else:
        gone = [(*row, number + place) for place, row in enumerate(before)]
        came = [(*row, number + place) for place, row in enumerate(after)]
    size = max(len(gone), len(came))
    gone += [None] * (size - len(gone))
    came += [None] * (size - len(came))
    for left, right in zip(gone, came, strict=True):
        if left == right:
            continue
        if left is not None:
            yield ("-D" if right is None else "-U"), left
        if right is not None:
            yield ("+I" if left is None else "+U"), right


@dataclass
class RankModel:
    """A ranking of each key, of rows of which some are taken back if `takes_back` says so."""

    asked: Ranked
    takes_back: bool
    kept: dict[Any, Kept] = field(default_factory=dict)

    def changes(self, batch: Sequence[Signed], moment: Moment) -> Iterator[tuple[str, Row]]:
        for key, changes in _by_key(batch, keyed=self.asked.keyed).items():
            of_key = [each for each in changes if self.takes_back or each[1]]
            if of_key:
                yield from self.kept.setdefault(key, Kept(self.asked)).changes(of_key, moment)


@dataclass
class FirstsModel:
    """The keys that have passed, and no other column: any row of a batch may be the first."""

    seen: dict[Any, float] = field(default_factory=dict)

    def changes(self, batch: Sequence[Signed], moment: Moment) -> Iterator[tuple[str, Row]]:
        for key in {row[0] for row, adds in batch if adds}:
            if self.seen.get(key, 0) <= moment.now:
                self.seen[key] = moment.expires
                yield "+I", (key,)


@dataclass
class LimitModel:
    """How many rows pass of each key, those from `first` to `last`."""

    first: int
    last: int
    passed: dict[Any, tuple[int, float]] = field(default_factory=dict)

    def changes(self, batch: Sequence[Signed], moment: Moment) -> Iterator[tuple[str, Row]]:
        for key, came in Counter(row[0] for row, adds in batch if adds).items():
            number, expires = self.passed.get(key, (0, 0.0))
            before = number if expires > moment.now else 0
            after = min(self.last, before + came)
            if after > before:
                self.passed[key] = (after, moment.expires)
            yield from [("+I", (key,))] * (max(after, self.first - 1) - max(before, self.first - 1))


@dataclass
class UpsertModel:
    """The row of each key, of so many columns, which a row that is added replaces and any other removes."""

    keys: int = 1
    rows: dict[Row, tuple[Row, float]] = field(default_factory=dict)

    def changes(self, batch: Sequence[Signed], moment: Moment) -> Iterator[tuple[str, Row]]:
        for key, (row, adds) in {each[0][: self.keys]: each for each in batch}.items():
            kept, expires = self.rows.pop(key, ((), 0.0))
            if adds:
                self.rows[key] = (row, moment.expires)
            yield from difference([kept] if expires > moment.now else [], [row] if adds else [], None)


ASKED = (
    Ranked(latest=True),
    Ranked(order="v"),
    Ranked(order="-v", last=3),
    Ranked(latest=True, last=2),
    Ranked(order="v", first=2, last=3, numbered=True),
    Ranked(order="-v", last=3, keyed=False),
    Ranked(changes=True, first=2, last=3, keyed=False),
    Ranked(changes=True, order="v", last=2),
    Ranked(changes=True, order="-v", last=3, numbered=True),
    Ranked(changes=True, order="v", first=2, last=4, keyed=False),
)

MATERIALIZED = Ranked(changes=True, latest=True)
"""What a table with a key has of the rows of a query: the last one of each key."""


class Models:
    """A model of each operator of the stream."""

    def __init__(self) -> None:
        self._models: dict[str, RankModel | FirstsModel | LimitModel | UpsertModel] = {
            **{str(asked): RankModel(asked, asked.changes) for asked in ASKED},
            "materialized changes": RankModel(MATERIALIZED, takes_back=True),
            "materialized adds": RankModel(MATERIALIZED, takes_back=False),
            "firsts": FirstsModel(),
            "limit": LimitModel(2, 4),
            "upserts": UpsertModel(),
        }

    def changes(self, batch: Sequence[Signed], moment: Moment) -> Told:
        return Told(
            (name, kind, row)
            for name, model in self._models.items()
            for kind, row in model.changes(batch, moment)
        )


def ranking(ttl: int) -> Callable[[DataFrame], DataFrame]:
    """Return what makes one stream of all operators over rows that change."""

    def operators(rows: DataFrame) -> DataFrame:
        session, adds = rows.sparkSession, rows.where(f"{KIND} IN (0, 2)").drop(KIND)

        def firsts(plan: Any) -> Any:
            keys = _keys(session, plan, keyed=True)
            return java_operator(session, "FirstRows").of(plan, keys, _kept(session, plan, ttl))

        def limited(plan: Any) -> Any:
            keys = _keys(session, plan, keyed=True)
            return java_operator(session, "LimitedRows").of(plan, keys, 2, 4, _kept(session, plan, ttl))

        def normalized(plan: Any) -> Any:
            keys = _keys(session, plan, keyed=True)
            return java_operator(session, "SingleRows").normalized(plan, keys, _kept(session, plan, ttl))

        def ranked(asked: Ranked) -> DataFrame:
            given = rows if asked.changes else adds
            return packed(str(asked), through(session, given, lambda plan: asked.plan(session, plan, ttl)))

        others = (
            packed("firsts", through(session, adds, firsts).select("k")),
            packed("limit", through(session, adds, limited).select("k")),
            packed("upserts", through(session, rows, normalized)),
            packed("materialized changes", materialized(rows, ["k"], operator_policy(duration(ttl)))),
            packed("materialized adds", materialized(adds, ["k"], operator_policy(duration(ttl)))),
        )
        return reduce(DataFrame.unionAll, chain(map(ranked, ASKED), others))

    return operators


def _keys(session: SparkSession, plan: Any, *, keyed: bool) -> Any:
    return java_keys(session, [plan.output().apply(0)] if keyed else [])


def _kept(session: SparkSession, plan: Any, ttl: int) -> Any:
    return java_state(session, OperatorState(index=0, name="rankState", ttl=duration(ttl)), plan, "The test")


def _attribute(session: SparkSession, expression: str) -> Any:
    return session.range(1).selectExpr(expression)._jdf.queryExecution().analyzed().output().apply(0)


def _sort_order(session: SparkSession, plan: Any, order: str) -> Any:
    column: Column = col("v").desc() if order == "-v" else col("v")
    rows = through(session, session.range(1).select(lit(1)), lambda _: plan)
    return rows.sort(column)._jdf.queryExecution().analyzed().order().apply(0)


def _by_key(batch: Sequence[Signed], *, keyed: bool) -> dict[Any, list[Signed]]:
    found: dict[Any, list[Signed]] = {}
    for row, adds in batch:
        found.setdefault(row[0] if keyed else None, []).append((row, adds))
    return found


@pytest.fixture
def start(
    module_driver: SparkDriver, tmp_path: Path
) -> Iterator[Callable[[Callable[[DataFrame], DataFrame]], OperatorStream]]:
    session, made = module_driver.new_session(), list[OperatorStream]()
    session.conf.set("spark.sql.shuffle.partitions", "1")

    def started(operator: Callable[[DataFrame], DataFrame]) -> OperatorStream:
        for each in made:
            each.stop()
        made.append(OperatorStream(session, tmp_path / str(next(_streams)), TYPES, operator))
        return made[-1]

    with active_session(session):
        yield started
    for each in made:
        each.stop()


VALUES = (("a", "b", None), (None, 0, 1, 2, 3), range(3))
"""Of the columns."""


@pytest.mark.skipif(DEPTH > 1, reason="a deep run has other scripts")
def test_the_script_tells_each_ttl_of_each_operator_from_others() -> None:
    assert untold(Models, *VALUES) == set()


@FEW_SCRIPTS
@given(script=scripts(*VALUES))
def test_each_batch_changes_what_a_model_says(
    start: Callable[[Callable[[DataFrame], DataFrame]], OperatorStream], script: Script
) -> None:
    replay(script, start, ranking, Models(), COLUMNS)
