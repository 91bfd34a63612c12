"""LIMIT, with an order and without, and upserts over generated streams on a real Spark,
against plain models of the statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from hypothesis import given
from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from mt_core.spark.connectors.kafka.source import UPSERT_KEYS
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
from tests.integration.test_aggregates_generated import PLAIN, AggregateModel
from tests.integration.test_ranks import LimitModel, Ranked, RankModel, UpsertModel
from tests.integration.test_ranks import start as start

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600 * DEPTH)]

COLUMNS = ("k", "v", "n")
Changes = Iterable[tuple[str, Row]]
Step = Callable[[Changes, Moment], Changes]
"""What becomes of the changes of a batch."""


class Keeper(Protocol):
    def changes(self, batch: Sequence[Signed], moment: Moment) -> Changes: ...


@dataclass(frozen=True, kw_only=True)
class Limit(Ranked):
    """The rows that stand first by what `by` gives of them, and of those that are equal in it the ones
    that came first.
    """

    by: Callable[[Row], Any] = lambda _: ()
    keyed: bool = False

    def place(self, row: Row) -> Any:
        return self.by(row)


def keeping(model: Keeper) -> Step:
    return lambda changes, moment: model.changes(
        [(row, kind in {"+I", "+U"}) for kind, row in changes], moment
    )


def limited(first: int, last: int, by: Callable[[Row], Any] = lambda _: (), *, adds: bool = False) -> Step:
    return keeping(RankModel(Limit(first=first, last=last, by=by, changes=not adds), not adds))


def selected(columns: Callable[[Row], Row], where: Callable[[Row], bool] = lambda _: True) -> Step:
    return lambda changes, _: [(kind, columns(row)) for kind, row in changes if where(row)]


def low(value: Any) -> tuple[bool, Any]:
    """Return what is ordered as a column is, NULL first."""
    return (value is not None, 0 if value is None else value)


def high(value: int | None) -> tuple[bool, int]:
    """Return what is ordered as a column with DESC is, NULL last."""
    return (value is None, -(value or 0))


QUERIES: Mapping[str, Callable[[], Sequence[Step]]] = {
    "SELECT k, v, n FROM adds ORDER BY v, n DESC LIMIT 3": lambda: [
        limited(1, 3, lambda row: (low(row[1]), -row[2]), adds=True)
    ],
    "SELECT k, v, n FROM adds ORDER BY n LIMIT 1": lambda: [limited(1, 1, lambda row: row[2], adds=True)],
    "SELECT k, v, n FROM adds ORDER BY k LIMIT 2 OFFSET 1": lambda: [
        limited(2, 3, lambda row: low(row[0]), adds=True)
    ],
    # Any rows of a batch may be the first ones.
    "SELECT 1 AS one FROM (SELECT k FROM adds UNION ALL SELECT k FROM adds) LIMIT 9 OFFSET 3": lambda: [
        lambda changes, _: [*changes, *changes],
        selected(lambda _: (1,)),
        keeping(LimitModel(4, 12)),
    ],
    "SELECT n FROM changes ORDER BY abs(v - 2), k NULLS LAST LIMIT 3": lambda: [
        limited(
            1, 3, lambda row: (low(None if row[1] is None else abs(row[1] - 2)), row[0] is None, low(row[0]))
        ),
        selected(lambda row: row[2:]),
    ],
    "SELECT k, n FROM (SELECT k, v, n FROM changes ORDER BY v DESC LIMIT 2 OFFSET 1) WHERE n > 0": lambda: [
        limited(2, 3, lambda row: high(row[1])),
        selected(lambda row: (row[0], row[2]), lambda row: row[2] > 0),
    ],
    "SELECT k, v, n FROM changes LIMIT 3 OFFSET 1": lambda: [limited(2, 4)],
    f"SELECT * FROM ({PLAIN.format(rows='changes')}) ORDER BY s DESC, k LIMIT 2": lambda: [
        keeping(AggregateModel("plain", takes_back=True)),
        limited(1, 2, lambda row: (high(row[3]), low(row[0]))),
    ],
    "SELECT n, k FROM upserts WHERE v > 1": lambda: [
        keeping(UpsertModel()),
        selected(lambda row: (row[2], row[0]), lambda row: (row[1] or 0) > 1),
    ],
    "SELECT k, v, n FROM pairs": lambda: [keeping(UpsertModel(keys=2))],
    PLAIN.format(rows="(SELECT v AS k, n AS v FROM upserts)"): lambda: [
        keeping(UpsertModel()),
        selected(lambda row: row[1:]),
        keeping(AggregateModel("plain", takes_back=True)),
    ],
    "SELECT k, v FROM pairs ORDER BY n DESC, k, v LIMIT 2": lambda: [
        keeping(UpsertModel(keys=2)),
        limited(1, 2, lambda row: (high(row[2]), low(row[0]), low(row[1]))),
        selected(lambda row: row[:2]),
    ],
}


class Models:
    """A model of each query."""

    def __init__(self) -> None:
        self._steps = {text: steps() for text, steps in QUERIES.items()}

    def changes(self, batch: Sequence[Signed], moment: Moment) -> Told:
        found = Told()
        for text, steps in self._steps.items():
            changes: Changes = [("+I" if adds else "-D", row) for row, adds in batch]
            for step in steps:
                changes = list(step(changes, moment))
            found.update((text, kind, row) for kind, row in changes)
        return found


def querying(ttl: int) -> Callable[[DataFrame], DataFrame]:
    """Return what makes one stream of all queries."""
    packed = "to_json(struct(*), map('ignoreNullFields', 'false'))"
    text = " UNION ALL ".join(f"SELECT '{text}' AS q, {packed} AS r FROM ({text})" for text in QUERIES)

    def queries(rows: DataFrame) -> DataFrame:
        upserts(rows, "k").createOrReplaceTempView("upserts")
        upserts(rows, "k", "v").createOrReplaceTempView("pairs")
        return aggregating(text, duration(ttl))(rows)

    return queries


def upserts(rows: DataFrame, *keys: str) -> DataFrame:
    """Return the rows as a topic has them that sets and removes what *keys* name:
    of one that is removed it has these alone.
    """
    removes = f"{KIND} IN (1, 3)"
    columns = [name if name in keys else f"IF({removes}, NULL, {name}) AS {name}" for name in COLUMNS]
    kind = expr(f"CAST(IF({removes}, 3, {KIND}) AS TINYINT)").alias(KIND, metadata={UPSERT_KEYS: list(keys)})
    return rows.select(*map(expr, columns), kind).select(*COLUMNS)


VALUES = (("a", "b", None), (None, 0, 1, 2, 3), range(3))
"""Of the columns."""


@pytest.mark.skipif(DEPTH > 1, reason="a deep run has other scripts")
def test_the_script_tells_each_ttl_of_each_query_from_others() -> None:
    assert untold(Models, *VALUES) == set()


@FEW_SCRIPTS
@given(script=scripts(*VALUES))
def test_each_batch_changes_what_a_model_says(start: Callable[..., OperatorStream], script: Script) -> None:
    replay(script, start, querying, Models(), COLUMNS)
