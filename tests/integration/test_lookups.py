"""Lookup joins of rows that change with a table that others change, on a real Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mt_core.errors import Unsupported
from mt_core.model.stream import SourceHint, StreamMember
from mt_core.plans.durations import FOR_EVER
from mt_core.plans.operators import RowKind
from mt_core.spark.connectors.changelog import ROW_KIND
from mt_core.spark.driver.jvm_objects import active_session
from mt_core.spark.driver.spark_driver import SparkDriver
from tests.integration.operator_stream import OperatorStream
from tests.integration.stream_world import StreamWorld
from tests.integration.test_aggregates import aggregating, change, changelog, rows_of

pytestmark = pytest.mark.spark

HOUR = timedelta(hours=1)
Row = tuple[str | None, int | None]
CITIES = [("a", "north"), ("b", "south")]
CITY = pa.schema([("city", pa.string()), ("region", pa.string())])
INNER = "SELECT v, region FROM changes AS x JOIN cities AS c ON x.k = c.city"


@pytest.fixture(scope="module")
def session(module_driver: SparkDriver) -> Iterator[SparkSession]:
    session = module_driver.new_session()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    with active_session(session):
        cities_of(session, CITIES)
        yield session


def cities_of(session: SparkSession, rows: Sequence[tuple[str | None, str]]) -> None:
    # Spark reads rows of Arrow, but Python converts those of a list for each job.
    table = pa.Table.from_pylist([{"city": city, "region": region} for city, region in rows], schema=CITY)
    session.createDataFrame(table).createOrReplaceTempView("cities")


class Lookup:
    """A query of the rows `changes` of a stream, and of a table `cities` with the columns city and region."""

    def __init__(self, session: SparkSession, folder: Path, text: str, ttl: timedelta) -> None:
        self._session, self._text, self._ttl = session, text, ttl
        self.result = Counter[Row]()
        cities_of(session, CITIES)
        self.stream = OperatorStream(
            session, folder, f"k STRING, v INT, {ROW_KIND} TINYINT", aggregating(text, ttl)
        )

    def becomes(self, *cities: tuple[str | None, str]) -> None:
        """Let the table have those rows from the next batch on."""
        cities_of(self._session, cities)
        self.stream.restart(aggregating(self._text, self._ttl))

    def after(self, come: Sequence[Row], go: Sequence[Row] = ()) -> Sequence[tuple[Any, ...]]:
        """Return the result, in order, after a batch of which rows *go* and others *come*."""
        gone = [change(RowKind.UPDATE_BEFORE, row) for row in go]
        for kind, row in self.stream.feed(*gone, *(change(RowKind.UPDATE_AFTER, row) for row in come)):
            self.result[tuple(row.values())] += 1 if kind in {"+I", "+U"} else -1
        assert min(self.result.values(), default=0) >= 0
        return sorted(self.result.elements(), key=repr)


@pytest.fixture
def start(session: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Lookup]]:
    started = list[Lookup]()

    def lookup(text: str, ttl: timedelta = FOR_EVER) -> Lookup:
        started.append(Lookup(session, tmp_path, text, ttl))
        return started[-1]

    yield lookup
    for each in started:
        each.stream.stop()


@pytest.fixture
def world(module_driver: SparkDriver, tmp_path: Path) -> Iterator[StreamWorld]:
    world = StreamWorld(module_driver, tmp_path)
    yield world
    world.stop_all()


def test_a_row_is_taken_back_as_it_was_joined_whatever_the_table_has_then(
    start: Callable[..., Lookup],
) -> None:
    lookup = start(INNER)

    assert lookup.after([("a", 1), ("a", 2), ("b", 3), ("z", 4)]) == [
        (1, "north"),
        (2, "north"),
        (3, "south"),
    ]
    lookup.becomes(("a", "west"), ("z", "east"))
    assert lookup.after([("a", 5)], [("a", 1), ("b", 3), ("z", 4)]) == [(2, "north"), (5, "west")]
    lookup.becomes()
    assert lookup.after([], [("a", 2), ("a", 5)]) == []


def test_equal_rows_are_taken_back_one_by_one_with_all_that_each_was_joined_with(
    start: Callable[..., Lookup],
) -> None:
    lookup = start(INNER)

    assert lookup.after([("a", 1), ("a", 1)]) == [(1, "north"), (1, "north")]
    lookup.becomes(("a", "west"), ("a", "west"), ("a", "east"))
    assert len(lookup.after([("a", 1), ("b", 1)])) == 5
    assert lookup.after([], [("a", 1)]) == [(1, "north"), (1, "north")]
    assert lookup.after([("a", 1)], [("a", 1), ("a", 1)]) == [(1, "north")]
    assert lookup.after([], [("a", 1)]) == []


KINDS: Mapping[str, tuple[str, Sequence[Row], Sequence[Row]]] = {
    "left": ("changes AS x LEFT JOIN cities AS c ON x.k = c.city", [(1, "north"), (4, None)],
             [(2, "west"), (4, None)]),
    "right": ("cities AS c RIGHT JOIN changes AS x ON x.k = c.city", [(1, "north"), (4, None)],
              [(2, "west"), (4, None)]),
    "inner": ("cities AS c JOIN changes AS x ON x.k = c.city AND x.v < 3", [(1, "north")], [(2, "west")]),
    "semi": ("changes AS x LEFT SEMI JOIN cities AS c ON x.k = c.city", [(1, None)], [(2, None)]),
    "anti": ("changes AS x LEFT ANTI JOIN cities AS c ON x.k = c.city", [(4, None)], [(4, None)]),
    "cross": ("changes AS x CROSS JOIN (SELECT max(region) AS region FROM cities)",
              [(1, "south"), (4, "south")], [(2, "west"), (4, "south")]),
}  # fmt: skip
"""Joins of rows with the table, and what each gives of two rows, and after the table
and one of the rows have changed.
"""


@pytest.mark.slow
def test_each_kind_of_join_keeps_what_it_gave(start: Callable[..., Lookup]) -> None:
    given = {kind: "CAST(NULL AS STRING)" if kind in {"semi", "anti"} else "region" for kind in KINDS}
    lookup = start(
        " UNION ALL ".join(
            f"SELECT '{kind}' AS kind, v, {given[kind]} AS region FROM {text}"
            for kind, (text, *_) in KINDS.items()
        )
    )
    first, second = (
        sorted(((kind, *row) for kind, expected in KINDS.items() for row in expected[place]), key=repr)
        for place in (1, 2)
    )

    assert lookup.after([("a", 1), ("z", 4)]) == first
    lookup.becomes(("a", "west"), ("z", "east"))
    assert lookup.after([("a", 2)], [("a", 1)]) == second
    lookup.becomes(("z", "east"))
    assert lookup.after([], [("a", 2), ("z", 4)]) == []


def test_an_aggregate_over_a_lookup_follows_the_rows_and_not_the_table(start: Callable[..., Lookup]) -> None:
    lookup = start(f"SELECT region, sum(v) AS s FROM ({INNER}) GROUP BY region")

    assert lookup.after([("a", 1), ("b", 1)]) == [("north", 1), ("south", 1)]
    lookup.becomes(("a", "south"), ("b", "south"))
    assert lookup.after([("a", 2)], [("a", 1)]) == [("south", 3)]


def test_columns_of_any_type_may_stand_in_a_row_that_is_kept(start: Callable[..., Lookup]) -> None:
    lookup = start(
        "SELECT x.v AS v, m[v] AS n, region FROM (SELECT k, v, map(v, d) AS m FROM "
        "(SELECT *, CAST(v AS DECIMAL(38, 2)) AS d FROM changes)) AS x LEFT JOIN cities AS c ON x.k = c.city"
    )

    assert lookup.after([("a", 1), (None, 2)]) == [(1, 1.0, "north"), (2, 2.0, None)]
    lookup.becomes()
    assert lookup.after([], [("a", 1)]) == [(2, 2.0, None)]


def test_what_has_expired_is_not_taken_back(start: Callable[..., Lookup]) -> None:
    lookup = start(INNER, HOUR)

    lookup.after([("a", 1), ("b", 2)])
    lookup.stream.wait(HOUR / 2)
    lookup.after([("b", 2)])
    lookup.stream.wait(HOUR / 2)
    assert lookup.after([], [("a", 1), ("b", 2)]) == [(1, "north"), (2, "south")]


def test_a_hint_names_the_stream_of_a_lookup(session: SparkSession) -> None:
    text = INNER.replace("SELECT", "SELECT /*+ STATE_TTL('x', '1 h') */")

    operators = [*changelog(rows_of(session), text).operator.all()]

    [state] = [state for each in operators for state in each.states]
    assert (state.name, state.ttl) == ("lookupJoinState", HOUR)
    assert [each.type for each in operators if each.states] == ["stream-exec-lookup-join_1"]


@pytest.mark.parametrize(
    "condition",
    [
        "k IN (SELECT city FROM cities)",
        "v > (SELECT count(*) FROM cities)",
        "EXISTS (SELECT 1 FROM cities WHERE city = k)",
    ],
)
def test_a_subquery_over_rows_that_change_is_refused_with_the_way_out(
    session: SparkSession, condition: str
) -> None:
    with pytest.raises(Unsupported, match="Join the rows with its table instead"):
        changelog(rows_of(session), f"SELECT k, v FROM changes WHERE {condition}")


@pytest.mark.slow
def test_a_sum_by_what_a_table_said_moves_with_its_rows_whatever_the_table_says_now(
    world: StreamWorld,
) -> None:
    world.sql("CREATE TABLE cities (city STRING, region STRING)")
    world.sql("INSERT INTO cities VALUES ('a', 'north'), ('b', 'north')")
    world.sql("CREATE TABLE totals (region STRING NOT NULL, n BIGINT)")
    world.sql("ALTER TABLE totals SET IDENTIFIER FIELDS region")
    world.append("a", "b")
    counts = "SELECT row, count(*) AS n FROM flights GROUP BY row"
    text = (
        f"INSERT INTO totals SELECT region, sum(n) FROM ({counts}) AS x "
        "JOIN cities AS c ON row = city GROUP BY region"
    )
    start = text.index("cities")
    hint = SourceHint(start=start, stop=start + len("cities"), options={"streaming": "false"})

    def totals() -> list[tuple[str, int]]:
        return sorted(map(tuple, world.sql("SELECT * FROM totals")))

    world.start("", members=(StreamMember(text=text, hints=(hint,)),))
    world.wait(lambda: totals() == [("north", 2)])
    world.sql("UPDATE cities SET region = 'south' WHERE city = 'a'")
    world.append("a")
    world.wait(lambda: totals() == [("north", 1), ("south", 2)])
    world.sql("DELETE FROM cities")
    world.append("a")
    world.wait(lambda: totals() == [("north", 1)])
