"""Ranks, limits and last rows on a real Spark: each operator gives what a plain model of it gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from mt_core.spark.driver.jvm_objects import static_member
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.streams.operators.java_operators import java_operator
from tests.depth import DEPTH
from tests.integration.operator_stream import KIND, Change, OperatorStream, through

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COLUMNS = "k STRING, v INT, n INT"
FOR_EVER = timedelta(days=36500)
HOUR = timedelta(hours=1)
KEYS = "abcdefgh"
BATCHES = 6
Row = tuple[str, int | None, int]
Signed = tuple[Row, bool]
_streams = count(1)


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """What an operator is asked for: `order` is `v` or `-v`, or nothing for the order of arrival."""

    changes: bool = False
    order: str = ""
    latest: bool = False
    first: int = 1
    last: int = 1
    numbered: bool = False
    ttl: timedelta = FOR_EVER

    @property
    def columns(self) -> str:
        return f"{COLUMNS}, {KIND} TINYINT" if self.changes else COLUMNS

    def __call__(self, rows: DataFrame) -> DataFrame:
        session = rows.sparkSession
        return through(session, rows, lambda plan: self._operator(session, plan))

    def _operator(self, session: SparkSession, plan: Any) -> Any:
        ordered = [_sort_order(session, plan, self.order)] if self.order else []
        ranking = java_operator(session, "Ranking", "The test")(
            java_list(session, ordered), self.latest, self.first, self.last
        )
        kept = java_operator(session, "KeptState", "The test")("rankState", self.ttl // timedelta(milliseconds=1))
        keys = java_list(session, [plan.output().apply(0)])
        number = attribute(session, "1 AS rn") if self.numbered else None
        if self.changes:
            return java_operator(session, "ChangedRanks", "The test").of(plan, keys, ranking, number, kept)
        if self.last == 1:
            return java_operator(session, "SingleRows", "The test").of(plan, keys, ranking, kept)
        return java_operator(session, "AddedRanks", "The test").of(plan, keys, ranking, number, kept)


@dataclass
class Model:
    """The rows of one key that have come and were not taken back, each with when it arrived."""

    asked: Ranked
    _rows: list[tuple[Row, int]] = field(default_factory=list)
    _arrivals: Iterator[int] = field(default_factory=count)

    def changes(self, batch: Sequence[Signed]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        before = self._ranked()
        self._apply(batch)
        return difference(before, self._ranked(), self.asked.first if self.asked.numbered else None)

    def _apply(self, batch: Sequence[Signed]) -> None:
        if not self.asked.changes:
            self._rows += [(row, next(self._arrivals)) for row, _ in batch]
            return
        sums = Counter[Row]()
        for row, adds in batch:
            sums[row] += 1 if adds else -1
        last = {row: place for place, (row, _) in enumerate(batch)}
        for row in sorted(sums, key=lambda row: last[row]):
            present = [arrival for each, arrival in self._rows if each == row]
            # Equal rows stand together.
            arrival = next(self._arrivals) if sums[row] > 0 and (self.asked.latest or not present) else None
            together = arrival if arrival is not None else (present or [0])[0]
            self._rows = [each for each in self._rows if each[0] != row]
            self._rows += [(row, together)] * (len(present) + sums[row])

    def _ranked(self) -> list[Row]:
        ordered = sorted(self._rows, key=lambda each: -each[1] if self.asked.latest else each[1])
        if self.asked.order == "v":
            ordered.sort(key=lambda each: (each[0][1] is not None, each[0][1] or 0))
        elif self.asked.order == "-v":
            ordered.sort(key=lambda each: (each[0][1] is None, -(each[0][1] or 0)))
        return [row for row, _ in ordered][self.asked.first - 1 : self.asked.last]


def difference(
    before: Sequence[Row], after: Sequence[Row], number: int | None
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield what makes *before* into *after*; with the *number* of the first row also those that have another number."""
    gone: list[tuple[Any, ...] | None]
    came: list[tuple[Any, ...] | None]
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


def java_list(session: SparkSession, items: Iterable[Any]) -> Any:
    found = static_member(session, "java.util.ArrayList")()
    for item in items:
        found.add(item)
    return found


def attribute(session: SparkSession, expression: str) -> Any:
    return session.range(1).selectExpr(expression)._jdf.queryExecution().analyzed().output().apply(0)


def _sort_order(session: SparkSession, plan: Any, order: str) -> Any:
    column: Column = col("v").desc() if order == "-v" else col("v")
    return (
        through(session, session.range(1).select(lit(1)), lambda _: plan)
        .sort(column)
        ._jdf.queryExecution()
        .analyzed()
        .order()
        .apply(0)
    )


@pytest.fixture
def stream(module_driver: SparkDriver, tmp_path: Path) -> Iterator[Callable[..., OperatorStream]]:
    made: list[OperatorStream] = []

    def make(operator: Callable[[DataFrame], DataFrame], columns: str) -> OperatorStream:
        made.append(OperatorStream(module_driver.session, tmp_path / str(next(_streams)), columns, operator))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def records(batch: Iterable[Signed]) -> list[dict[str, Any]]:
    """Return changes as rows; how they are named says nothing."""
    return [{"k": k, "v": v, "n": n, KIND: (0, 2)[n % 2] if adds else (3, 1)[n % 2]} for (k, v, n), adds in batch]


def told(changes: Iterable[Change]) -> Counter[tuple[str, tuple[Any, ...]]]:
    return Counter((kind, tuple(columns.values())) for kind, columns in changes)


def batches_of(chance: Random, changes: bool) -> Iterator[list[Signed]]:
    """Yield batches of rows with few contents: with *changes*, many take back one that is there."""
    present: list[Row] = []
    for _ in range(BATCHES):
        found: list[Signed] = []
        for _ in range(chance.randint(0, 3 * len(KEYS))):
            key = chance.choice(KEYS)
            mine = [row for row in present if row[0] == key]
            if changes and mine and chance.random() < 0.45:
                row = chance.choice(mine)
                present.remove(row)
                found.append((row, False))
            else:
                row = (key, chance.choice([None, 0, 1, 2, 3]), chance.randrange(3))
                present.append(row)
                found.append((row, True))
        yield found


ASKED = [
    Ranked(latest=True),
    Ranked(order="v"),
    Ranked(order="-v", last=3),
    Ranked(latest=True, last=2),
    Ranked(order="v", first=2, last=3, numbered=True),
    Ranked(changes=True, latest=True),
    Ranked(changes=True, order="v", last=2),
    Ranked(changes=True, order="-v", last=3, numbered=True),
]


@pytest.mark.slow
@pytest.mark.parametrize("asked", ASKED, ids=str)
@settings(max_examples=DEPTH, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(seed=st.integers(0, 2**32), again=st.sampled_from(["restart", "repeat"]))
def test_each_batch_changes_what_a_model_says(
    stream: Callable[..., OperatorStream], asked: Ranked, seed: int, again: str
) -> None:
    chance, models = Random(seed), {key: Model(asked) for key in KEYS}
    operator, break_after = stream(asked, asked.columns), chance.randrange(BATCHES)

    for place, batch in enumerate(batches_of(chance, asked.changes)):
        expected = Counter(
            change
            for key, model in models.items()
            for change in model.changes([each for each in batch if each[0][0] == key])
        )

        assert told(operator.feed(*records(batch))) == expected

        if place == break_after and again == "repeat":
            assert told(operator.repeat()) == expected
        elif place == break_after:
            operator.restart()
