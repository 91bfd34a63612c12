"""Regular joins of streams on a real Spark: each batch changes what a plain model of the join says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import reduce
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from pyspark.sql import DataFrame
from pyspark.sql.functions import expr, lit

from mt_core.plans.durations import FOR_EVER
from mt_core.plans.operators import OperatorState
from mt_core.spark.driver.jvm_objects import active_session, java_dataset, static_member
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.streams.operators.java_operators import java_operator
from mt_core.spark.streams.operators.java_states import java_policy
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
from tests.integration.operator_stream import KIND, Change, OperatorStream

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600 * DEPTH)]

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
HOW = ("inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_anti")
ALONE = {
    "inner": (False, False),
    "left_outer": (True, False),
    "right_outer": (False, True),
    "full_outer": (True, True),
    "left_semi": (True, False),
    "left_anti": (True, False),
}
"""Of which sides a join gives rows by themselves, as long as they match none of the other one;
a semi join if they match.
"""
LEFT, RIGHT = 0, 1
COLUMNS = ("side", "k", "v")
_streams = count(1)


@dataclass(frozen=True, kw_only=True)
class Joined:
    """Joins of the rows of side 0 with those of side 1, all united;
    `changes` says of which sides rows are taken back.
    """

    on: str = "k = rk"
    how: Sequence[str] = HOW
    changes: tuple[bool, bool] = (True, True)
    ttls: tuple[timedelta, timedelta] = (FOR_EVER, FOR_EVER)

    def __call__(self, rows: DataFrame) -> DataFrame:
        return reduce(DataFrame.unionAll, (self.join(rows, how) for how in self.how))

    def join(self, rows: DataFrame, how: str) -> DataFrame:
        names = (("k", "v AS l"), ("k AS rk", "v AS r"))
        left, right = (
            rows.where(
                f"side = {side}" if self.changes[side] else f"side = {side} AND {KIND} IN (0, 2)"
            ).selectExpr(*names[side], *([KIND] if self.changes[side] else []))
            for side in (LEFT, RIGHT)
        )
        session = rows.sparkSession
        lists = static_member(session, "java.util.ArrayList")
        kinds, ttls = lists(), lists()
        for side in (LEFT, RIGHT):
            kinds.add(self.changes[side])
            state = OperatorState(index=side, name="", ttl=self.ttls[side])
            ttls.add(
                java_policy(session, state, (left, right)[side]._jdf.queryExecution().analyzed(), "The test")
            )
        plan = left.join(right, expr(self.on), how)._jdf.queryExecution().analyzed()
        found = DataFrame(
            java_dataset(session, java_operator(session, "RegularJoin").of(plan, kinds, ttls)), session
        )
        columns = [
            name if name in found.columns else f"CAST(NULL AS INT) AS {name}"
            for name in ("k", "l", "rk", "r")
        ]
        kind = KIND if KIND in found.columns else f"CAST(0 AS TINYINT) AS {KIND}"
        return found.select(lit(how).alias("how"), *map(expr, [*columns, kind]))


@pytest.fixture
def stream(module_driver: SparkDriver, tmp_path: Path) -> Iterator[Callable[..., OperatorStream]]:
    session, made = module_driver.new_session(), list[OperatorStream]()
    session.conf.set("spark.sql.shuffle.partitions", "1")

    def make(operator: Callable[[DataFrame], DataFrame]) -> OperatorStream:
        for each in made:
            each.stop()
        columns = f"side INT, k INT, v INT, {KIND} TINYINT"
        made.append(OperatorStream(session, tmp_path / str(next(_streams)), columns, operator))
        return made[-1]

    with active_session(session):
        yield make
    for each in made:
        each.stop()


MATCHES: Mapping[str, Callable[[Row, Row], bool]] = {
    "k = rk": lambda left, right: left[0] is not None and left[0] == right[0],
    "k = rk AND l <= r": lambda left, right: (
        left[0] is not None and left[0] == right[0] and left[1] <= right[1]
    ),
    "k <=> rk AND l BETWEEN r AND r + 1": lambda left, right: (
        left[0] == right[0] and right[1] <= left[1] <= right[1] + 1
    ),
    "l < r": lambda left, right: left[1] < right[1],
}


@dataclass
class Equals:
    """Equal rows of a side: how many there are, and how many rows of the other side they matched
    when these came.
    """

    count: int
    matches: int
    expires: float


@dataclass
class JoinModel:
    """One join of all rows that have come, were not taken back and have not expired;
    what expires takes nothing back.
    """

    how: str
    on: str
    takes_back: tuple[bool, bool]
    sides: tuple[dict[Row, Equals], dict[Row, Equals]] = field(default_factory=lambda: ({}, {}))
    result: Counter[Row] = field(default_factory=Counter)

    def changes(self, batch: Sequence[Signed], moment: Moment) -> Counter[Row]:
        """Return how often each row comes into the result; with a negative number it is taken back."""
        self.result = Counter()
        moments = (moment, moment.of_other)
        net = Counter[tuple[int, Row]]()
        for (side, *row), adds in batch:
            if adds or self.takes_back[side]:
                net[side, tuple(row)] += 1 if adds else -1
        for (side, row), number in sorted((-net).items(), key=lambda each: each[0][0]):
            self._take_out(side, row, number, moments)
        for (side, row), number in sorted((+net).items(), key=lambda each: each[0][0]):
            self._add(side, row, number, moments)
        return self.result

    def _add(self, side: int, row: Row, number: int, moments: Sequence[Moment]) -> None:
        matching = self._matching(side, row, moments)
        for other in matching:
            self._give_pairs(side, row, other, number)
            self._match(1 - side, other, number, moments)
        found = sum(self.sides[1 - side][other].count for other in matching)
        own = self.sides[side].get(row)
        count = own.count if own is not None and own.expires > moments[side].now else 0
        self.sides[side][row] = Equals(count + number, found, moments[side].expires)
        self._give_alone(side, row, found, number)

    def _take_out(self, side: int, row: Row, number: int, moments: Sequence[Moment]) -> None:
        matching = self._matching(side, row, moments)
        for other in matching:
            matches = self.sides[1 - side][other].matches
            # A row that came after this one had expired was never paired with it.
            paired = min(number, matches) if ALONE[self.how][1 - side] else number
            self._give_pairs(side, row, other, -paired)
            self._match(1 - side, other, -paired, moments)
        own = self.sides[side].get(row)
        found = sum(self.sides[1 - side][other].count for other in matching)
        if own is not None and own.expires > moments[side].now:
            found = own.matches if ALONE[self.how][side] else found
            own.count, own.expires = own.count - number, moments[side].expires
            if own.count <= 0:
                del self.sides[side][row]
        self._give_alone(side, row, found, -number)

    def _matching(self, side: int, row: Row, moments: Sequence[Moment]) -> list[Row]:
        def matches(other: Row) -> bool:
            return MATCHES[self.on](*((row, other) if side == LEFT else (other, row)))

        others, now = self.sides[1 - side], moments[0].now
        return [other for other, equals in others.items() if equals.expires > now and matches(other)]

    def _match(self, side: int, row: Row, number: int, moments: Sequence[Moment]) -> None:
        """Let a row match so many others more; it may be given by itself no longer, or again."""
        if not ALONE[self.how][side] or number == 0:
            return
        equals = self.sides[side][row]
        before = self._is_given_alone(equals.matches)
        equals.matches, equals.expires = equals.matches + number, moments[side].expires
        after = self._is_given_alone(equals.matches)
        if before != after:
            self._give(side, row, equals.count if after else -equals.count)

    def _give_pairs(self, side: int, row: Row, other: Row, number: int) -> None:
        if self.how not in {"left_semi", "left_anti"}:
            pair = (*row, *other) if side == LEFT else (*other, *row)
            self.result[pair] += number * self.sides[1 - side][other].count

    def _give_alone(self, side: int, row: Row, found: int, number: int) -> None:
        if ALONE[self.how][side] and self._is_given_alone(found):
            self._give(side, row, number)

    def _give(self, side: int, row: Row, number: int) -> None:
        self.result[(*row, None, None) if side == LEFT else (None, None, *row)] += number

    def _is_given_alone(self, matches: int) -> bool:
        return (matches > 0) == (self.how == "left_semi")


VARIANTS = (
    Joined(on="k = rk AND l <= r"),
    Joined(on="k <=> rk AND l BETWEEN r AND r + 1", changes=(False, True), how=("right_outer",)),
    Joined(on="k = rk", changes=(True, False), how=("left_anti",)),
    Joined(on="k = rk AND l <= r", changes=(False, False), how=("inner", "full_outer", "left_semi")),
    Joined(on="l < r", how=("full_outer",)),
)


class Models:
    """A model of each join of the stream."""

    def __init__(self) -> None:
        self._models = {
            f"{place} {how}": JoinModel(how, variant.on, variant.changes)
            for place, variant in enumerate(VARIANTS)
            for how in variant.how
        }

    def changes(self, batch: Sequence[Signed], moment: Moment) -> Told:
        found = Told()
        for name, model in self._models.items():
            for row, number in model.changes(batch, moment).items():
                found[name, "+I" if number > 0 else "-D", row] += abs(number)
        return +found


def joining(ttl: int) -> Callable[[DataFrame], DataFrame]:
    """Return what makes one stream of all joins."""

    def joins(rows: DataFrame) -> DataFrame:
        ttls = (duration(ttl), duration(Moment(0, ttl).of_other.ttl))
        parts = (
            packed(f"{place} {how}", replace(variant, ttls=ttls).join(rows, how).drop("how"))
            for place, variant in enumerate(VARIANTS)
            for how in variant.how
        )
        return reduce(DataFrame.unionAll, parts)

    return joins


VALUES = ((LEFT, RIGHT), (None, 1, 2), range(4))
"""Of the columns."""


@pytest.mark.skipif(DEPTH > 1, reason="a deep run has other scripts")
def test_the_script_tells_each_ttl_of_each_join_from_others() -> None:
    assert untold(Models, *VALUES) == set()


@pytest.mark.slow
@FEW_SCRIPTS
@given(script=scripts(*VALUES))
def test_each_batch_changes_what_a_model_says(stream: Callable[..., OperatorStream], script: Script) -> None:
    replay(script, stream, joining, Models(), COLUMNS, unnamed)


def unnamed(found: Told) -> Told:
    """Return changes of which a row that is updated is one that comes or goes."""
    return Told(
        {
            (name, kind, row): found[name, kind, row] + found[name, update, row]
            for name, each, row in found
            for kind, update in [("+I", "+U") if each.startswith("+") else ("-D", "-U")]
        }
    )


def record(side: int, row: Row, kind: int) -> Mapping[str, Any]:
    return {"side": side, "k": row[0], "v": row[1], KIND: kind}


def changes_of(changes: Sequence[Change]) -> list[tuple[str, ...]]:
    return sorted((columns["how"], kind, f"{columns['l']} {columns['r']}") for kind, columns in changes)


def test_rows_of_each_side_expire_at_their_time_and_take_nothing_back(
    stream: Callable[[Joined], OperatorStream],
) -> None:
    operator = stream(Joined(how=("inner", "full_outer"), ttls=(HOUR, DAY)))
    assert changes_of(operator.feed(record(LEFT, (1, 10), 0))) == [("full_outer", "+I", "10 None")]

    operator.wait(HOUR)
    # The left row is gone, and its result stays.
    assert changes_of(operator.feed(record(RIGHT, (1, 20), 0))) == [("full_outer", "+I", "None 20")]
    operator.wait(DAY - HOUR)
    # The right row is there still.
    assert changes_of(operator.feed(record(LEFT, (1, 11), 0))) == [
        ("full_outer", "+I", "11 20"),
        ("full_outer", "-D", "None 20"),
        ("inner", "+I", "11 20"),
    ]
    operator.wait(DAY)
    assert changes_of(operator.feed(record(LEFT, (1, 12), 0))) == [("full_outer", "+I", "12 None")]


def test_a_state_takes_another_ttl_after_a_restart(stream: Callable[[Joined], OperatorStream]) -> None:
    operator = stream(Joined(how=("inner",)))
    operator.feed(record(LEFT, (1, 10), 0))

    operator.restart(Joined(how=("inner",), ttls=(HOUR, HOUR)))
    operator.feed(record(LEFT, (1, 11), 0))
    operator.wait(HOUR)

    # It holds for what was written since.
    assert changes_of(operator.feed(record(RIGHT, (1, 20), 0))) == [("inner", "+I", "10 20")]


def test_a_row_that_was_taken_out_and_comes_again_stays_for_its_own_time(
    stream: Callable[[Joined], OperatorStream],
) -> None:
    operator = stream(Joined(how=("inner",), ttls=(HOUR, HOUR)))
    operator.feed(record(LEFT, (1, 10), 0))
    operator.wait(HOUR / 2)
    operator.feed(record(LEFT, (1, 10), 3))
    operator.feed(record(LEFT, (1, 10), 0))

    operator.wait(HOUR / 2)
    # A batch in which the row of the first time would have been removed.
    operator.feed(record(LEFT, (2, 10), 0))

    assert changes_of(operator.feed(record(RIGHT, (1, 20), 0))) == [("inner", "+I", "10 20")]


def test_a_row_that_is_taken_out_takes_its_pairs_along_though_it_has_expired(
    stream: Callable[[Joined], OperatorStream],
) -> None:
    operator = stream(Joined(how=("inner", "left_outer"), ttls=(FOR_EVER, HOUR)))
    operator.feed(record(LEFT, (1, 10), 0), record(RIGHT, (1, 20), 0))
    operator.wait(HOUR)

    assert changes_of(operator.feed(record(RIGHT, (1, 20), 3))) == [
        ("inner", "-D", "10 20"),
        ("left_outer", "+I", "10 None"),
        ("left_outer", "-D", "10 20"),
    ]


def test_an_inner_join_names_an_update_as_its_input_does(stream: Callable[[Joined], OperatorStream]) -> None:
    operator = stream(Joined(how=("inner",)))
    operator.feed(record(LEFT, (1, 10), 0), record(RIGHT, (1, 20), 0))

    assert changes_of(operator.feed(record(RIGHT, (1, 20), 1), record(RIGHT, (1, 21), 2))) == [
        ("inner", "+U", "10 21"),
        ("inner", "-U", "10 20"),
    ]
