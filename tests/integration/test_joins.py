"""Regular joins of streams on a real Spark: each batch changes what a plain model of the join says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame
from pyspark.sql.functions import expr, lit

from mt_core.spark.driver.jvm_objects import java_dataset, static_member
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.streams.operators.java_operators import java_operator
from tests.depth import DEPTH
from tests.integration.operator_stream import KIND, Change, OperatorStream

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

BATCHES = 4
FOR_EVER, DAY, HOUR = timedelta(days=36500), timedelta(days=1), timedelta(hours=1)
HOW = ("inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_anti")
LEFT, RIGHT = 0, 1
Row = tuple[int | None, int]
Result = tuple[str, int | None, int | None, int | None, int | None]
_streams = count(1)


@dataclass(frozen=True, kw_only=True)
class Joined:
    """Joins of the rows of side 0 with those of side 1, all united; `changes` says of which sides rows are taken back."""

    on: str = "k = rk"
    how: Sequence[str] = HOW
    changes: tuple[bool, bool] = (True, True)
    ttls: tuple[timedelta, timedelta] = (FOR_EVER, FOR_EVER)

    def __call__(self, rows: DataFrame) -> DataFrame:
        return reduce(DataFrame.unionAll, (self._join(rows, how) for how in self.how))

    def _join(self, rows: DataFrame, how: str) -> DataFrame:
        names = (("k", "v AS l"), ("k AS rk", "v AS r"))
        left, right = (
            rows.where(f"side = {side}").selectExpr(*names[side], *([KIND] if self.changes[side] else []))
            for side in (LEFT, RIGHT)
        )
        session = rows.sparkSession
        lists = static_member(session, "java.util.ArrayList")
        kinds, ttls = lists(), lists()
        for side in (LEFT, RIGHT):
            kinds.add(self.changes[side])
            ttls.add(self.ttls[side] // timedelta(milliseconds=1))
        plan = left.join(right, expr(self.on), how)._jdf.queryExecution().analyzed()
        found = DataFrame(
            java_dataset(session, java_operator(session, "RegularJoin", "The test").of(plan, kinds, ttls)), session
        )
        columns = [name if name in found.columns else f"CAST(NULL AS INT) AS {name}" for name in ("k", "l", "rk", "r")]
        kind = KIND if KIND in found.columns else f"CAST(0 AS TINYINT) AS {KIND}"
        return found.select(lit(how).alias("how"), *map(expr, [*columns, kind]))


@pytest.fixture
def stream(module_driver: SparkDriver, tmp_path: Path) -> Iterator[Callable[[Joined], OperatorStream]]:
    made: list[OperatorStream] = []

    def make(joined: Joined) -> OperatorStream:
        columns = f"side INT, k INT, v INT, {KIND} TINYINT"
        made.append(OperatorStream(module_driver.session, tmp_path / str(next(_streams)), columns, joined))
        return made[-1]

    yield make
    for each in made:
        each.stop()


Rows = tuple[Counter[Row], Counter[Row]]
MATCHES: Mapping[str, Callable[[Row, Row], bool]] = {
    "k = rk": lambda left, right: left[0] is not None and left[0] == right[0],
    "k = rk AND l <= r": lambda left, right: left[0] is not None and left[0] == right[0] and left[1] <= right[1],
    "k <=> rk AND l BETWEEN r AND r + 1": lambda left, right: (
        left[0] == right[0] and right[1] <= left[1] <= right[1] + 1
    ),
    "l < r": lambda left, right: left[1] < right[1],
}


def results(rows: Rows, on: str) -> Counter[Result]:
    """Return what each join gives of all *rows*."""
    found = Counter[Result]()
    matching = [(left, right) for left in rows[LEFT] for right in rows[RIGHT] if MATCHES[on](left, right)]
    for left, right in matching:
        for how in HOW[:4]:
            found[how, *left, *right] = rows[LEFT][left] * rows[RIGHT][right]
    paired = ({left for left, _ in matching}, {right for _, right in matching})
    for left, number in rows[LEFT].items():
        for how in ("left_semi",) if left in paired[LEFT] else ("left_outer", "full_outer", "left_anti"):
            found[how, *left, None, None] = number
    for right, number in rows[RIGHT].items():
        for how in () if right in paired[RIGHT] else ("right_outer", "full_outer"):
            found[how, None, None, *right] = number
    return found


def difference(before: Counter[Result], after: Counter[Result]) -> Counter[tuple[bool, Result]]:
    added = Counter({(True, row): number for row, number in (after - before).items()})
    return added + Counter({(False, row): number for row, number in (before - after).items()})


def told(changes: Sequence[Change]) -> Counter[tuple[bool, Any]]:
    return Counter((kind in {"+I", "+U"}, tuple(columns.values())) for kind, columns in changes)


def batches_of(chance: Random, changes: tuple[bool, bool]) -> Iterator[list[tuple[int, Row, bool]]]:
    """Yield batches of rows with few contents, each with its side, of which many take back one that is there."""
    present: tuple[list[Row], list[Row]] = ([], [])
    for _ in range(BATCHES):
        batch: list[tuple[int, Row, bool]] = []
        for _ in range(chance.randint(1, 24)):
            side = chance.choice((LEFT, RIGHT))
            mine = present[side]
            if changes[side] and mine and chance.random() < 0.45:
                batch.append((side, mine.pop(chance.randrange(len(mine))), False))
            else:
                mine.append((chance.choice([None, 1, 2, 3]), chance.randrange(4)))
                batch.append((side, mine[-1], True))
        yield batch


def record(side: int, row: Row, kind: int) -> dict[str, Any]:
    return {"side": side, "k": row[0], "v": row[1], KIND: kind}


@pytest.mark.slow
@pytest.mark.parametrize(
    "joined",
    [
        Joined(changes=(False, False), on="k = rk AND l <= r"),
        Joined(changes=(True, False), on="k = rk"),
        Joined(changes=(False, True), on="k <=> rk AND l BETWEEN r AND r + 1"),
        Joined(on="k = rk AND l <= r"),
        Joined(on="l < r"),
    ],
    ids=lambda joined: f"{joined.on} {joined.changes}",
)
@settings(max_examples=DEPTH, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(seed=st.integers(0, 2**32), again=st.sampled_from(["restart", "repeat"]))
def test_each_batch_changes_what_a_model_says(
    stream: Callable[[Joined], OperatorStream], joined: Joined, seed: int, again: str
) -> None:
    chance, rows = Random(seed), (Counter[Row](), Counter[Row]())
    operator, break_after = stream(joined), chance.randrange(BATCHES)

    for place, batch in enumerate(batches_of(chance, joined.changes)):
        before = results(rows, joined.on)
        for side, row, adds in batch:
            rows[side][row] += 1 if adds else -1
        rows = (+rows[LEFT], +rows[RIGHT])
        expected = difference(before, results(rows, joined.on))
        # How changes are named says nothing.
        given = [record(side, row, (0, 2)[place % 2] if adds else (3, 1)[place % 2]) for side, row, adds in batch]

        assert told(operator.feed(*given)) == expected

        if place == break_after and again == "repeat":
            assert told(operator.repeat()) == expected
        elif place == break_after:
            operator.restart()


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
