"""What does a refresh cost that applies a change, compared with a recomputation?

The changes affect from a ten-thousandth to a tenth of the source.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count

from benchmarks.embedded import Embedded, embedded_gateway
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, timed
from mt_core.client.http import Refresh

ROWS, FILES, KEYS, NAMES = 10_000_000, 40, 100_000, 1_000
SOURCE, DIMENSION = "lake.default.sales", "lake.default.customers"
STRATEGIES = ("full", "incremental", "auto")
# From the third run on, `auto` knows how long a change and a recomputation take.
SETTLED = 2
MOST_OF_BETTER = 1.25
_ids = count(ROWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query, and the share of a recomputation that a change of 0.1 % may cost."""

    name: str
    text: str
    most: float


PROJECTION = Query(
    name="projection", text=f"SELECT id, customer, amount * 2 AS doubled FROM {SOURCE}", most=0.1
)
AGGREGATE = Query(
    name="aggregate",
    text=f"SELECT customer, count(*) AS sales, sum(amount) AS amount FROM {SOURCE} GROUP BY customer",
    most=0.5,
)
JOIN = Query(
    name="join and aggregate",
    text=f"SELECT c.region, s.customer, count(*) AS sales, sum(s.amount) AS amount FROM {SOURCE} AS s "
    f"JOIN {DIMENSION} AS c ON s.customer = c.customer GROUP BY c.region, s.customer",
    most=0.3,
)
DISTINCT = Query(
    name="count distinct",
    text=(
        "SELECT customer, count(DISTINCT product) AS products, avg(amount) AS mean "
        f"FROM {SOURCE} GROUP BY customer"
    ),
    most=0.25,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What happens to the source before each round. `most` replaces the limits of the queries.

    `properties` are set before the first round; they change how the source stores updates.
    """

    name: str
    rounds: int
    queries: Sequence[Query]
    text: str
    limited: bool = False
    most: float | None = None
    properties: str | None = None


def _append(rows: int) -> str:
    return (
        f"INSERT INTO {SOURCE} SELECT {{id}} + id, pmod(hash(id, {{id}}), {KEYS}), pmod(hash(id), {NAMES}), "
        f"pmod(hash(id, 4), 1000) FROM range({rows})"
    )


SCATTERED = f"UPDATE {SOURCE} SET amount = amount + 1 WHERE pmod(id, 1000) = pmod({{id}}, 1000)"
# The ids of one file are adjacent; the ids of each customer are spread over all files.
CHANGES = (
    Change(
        name="0.01 % appended", rounds=3, queries=(PROJECTION, AGGREGATE, JOIN), text=_append(ROWS // 10_000)
    ),
    Change(
        name="0.1 % appended",
        rounds=7,
        queries=(PROJECTION, AGGREGATE, JOIN, DISTINCT),
        text=_append(ROWS // 1_000),
        limited=True,
    ),
    Change(
        name="0.1 % updated in one file",
        rounds=7,
        queries=(PROJECTION, AGGREGATE),
        text=(
            f"UPDATE {SOURCE} SET amount = amount + 1 "
            f"WHERE id BETWEEN {{low}} AND {{low}} + {ROWS // 1_000 - 1}"
        ),
        limited=True,
        most=0.3,
    ),
    Change(
        name="0.1 % updated in all files",
        rounds=3,
        queries=(PROJECTION, AGGREGATE),
        text=SCATTERED,
    ),
    Change(name="1 % appended", rounds=3, queries=(PROJECTION, AGGREGATE, JOIN), text=_append(ROWS // 100)),
    Change(name="10 % appended", rounds=3, queries=(PROJECTION, AGGREGATE, JOIN), text=_append(ROWS // 10)),
    Change(
        name="0.1 % updated in all files, by position deletes",
        rounds=2,
        queries=(PROJECTION, AGGREGATE),
        text=SCATTERED,
        properties="'write.update.mode' = 'merge-on-read'",
    ),
    Change(
        name="0.1 % updated in all files, by deletion vectors",
        rounds=2,
        queries=(PROJECTION, AGGREGATE),
        text=SCATTERED,
        properties="'format-version' = '3'",
    ),
)


@dataclass(slots=True)
class Taken:
    """The durations of the refreshes of one query after one kind of change, by strategy.

    `ways` are the ways that they used.
    """

    seconds: dict[str, list[float]] = field(default_factory=dict)
    ways: dict[str, list[str]] = field(default_factory=dict)

    def median(self, strategy: str) -> float:
        return statistics.median(self.seconds[strategy])

    def settled(self) -> float:
        """Return the median of the runs of `auto` from the third on.

        The unit is the better of the other two strategies.
        """
        later = self.seconds["auto"][SETTLED:] or self.seconds["auto"]
        return statistics.median(later) / min(self.median("full"), self.median("incremental"))


def measure() -> Iterator[Finding]:
    """Yield a table for each kind of change."""
    with embedded_gateway() as gateway:
        gateway.spark.sql(
            f"CREATE TABLE {SOURCE} USING iceberg AS SELECT id, pmod(hash(id), {KEYS}) AS customer, "
            f"pmod(hash(id, 1), {NAMES}) AS product, pmod(hash(id, 2), 1000) AS amount "
            f"FROM range(0, {ROWS}, 1, {FILES})"
        )
        gateway.spark.sql(
            f"CREATE TABLE {DIMENSION} USING iceberg AS "
            f"SELECT CAST(id AS INT) AS customer, pmod(id, 50) AS region FROM range({KEYS})"
        )
        known: set[str] = set()
        for change in CHANGES:
            if change.properties is not None:
                gateway.spark.sql(f"ALTER TABLE {SOURCE} SET TBLPROPERTIES ({change.properties})")
            for query in change.queries:
                if query.name not in known:
                    known.add(query.name)
                    _create(gateway, query)
            yield _finding(change, _rounds(gateway, change))


def _create(gateway: Embedded, query: Query) -> None:
    for strategy in STRATEGIES:
        gateway.sql(
            f"CREATE MATERIALIZED TABLE {_table(query, strategy)} WITH ('refresh.strategy' = '{strategy}') "
            f"FRESHNESS = INTERVAL '7' DAY REFRESH_MODE = FULL AS {query.text}"
        )


def _table(query: Query, strategy: str) -> str:
    return f"{query.name.replace(' ', '_')}_{strategy}"


def _rounds(gateway: Embedded, change: Change) -> Mapping[str, Taken]:
    """Change the source, and refresh the tables of each query in turn.

    The first round brings all tables to the same version.
    """
    taken = {query.name: Taken() for query in change.queries}
    for number in range(-1, change.rounds):
        if number >= 0:
            low = (number * 7 % FILES) * (ROWS // FILES)
            gateway.spark.sql(change.text.format(id=next(_ids) * ROWS // 100, low=low))
        for query in change.queries:
            for strategy in STRATEGIES if number % 2 else reversed(STRATEGIES):
                table = _table(query, strategy)
                seconds = timed(partial(_refresh, gateway, table))
                if number >= 0:
                    taken[query.name].seconds.setdefault(strategy, []).append(seconds)
                    taken[query.name].ways.setdefault(strategy, []).append(_way(gateway, table))
    return taken


def _refresh(gateway: Embedded, table: str) -> None:
    """Refresh as the scheduler does, because a manual refresh computes all rows."""
    refresh = Refresh(
        identifier=f"lake.default.{table}",
        is_periodic=True,
        schedule_time=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
    )
    gateway.refresh(refresh)


def _way(gateway: Embedded, table: str) -> str:
    page = next(page for page in gateway.sql(f"SHOW REFRESHES FOR {table} LIMIT 1") if page.rows)
    names = [column.name for column in page.columns]
    return str(dict(zip(names, page.rows[0], strict=True))["strategy"])


def _finding(change: Change, taken: Mapping[str, Taken]) -> Finding:
    rows, targets = [], []
    for query in change.queries:
        found = taken[query.name]
        ratio = found.median("incremental") / found.median("full")
        rows.append(
            [
                query.name,
                *(Samples(found.seconds[strategy]).shown() for strategy in STRATEGIES),
                f"{ratio:.2f}",
                " ".join(dict.fromkeys(found.ways["incremental"])),
                " ".join(dict.fromkeys(found.ways["auto"][SETTLED:] or found.ways["auto"])),
                f"{found.settled():.2f}",
            ]
        )
        if change.limited:
            most = change.most or query.most
            targets.append(
                Target(
                    asked=(
                        f"at most {most} of a recomputation, and auto at most {MOST_OF_BETTER} of the better"
                    ),
                    measured=f"{query.name}: {ratio:.2f}, {found.settled():.2f}",
                    met=ratio <= most and found.settled() <= MOST_OF_BETTER,
                )
            )
    return Finding(
        title=f"Refresh after a change of {ROWS:,} rows: {change.name}",
        columns=["query", *STRATEGIES, "incremental / full", "its way", "auto's way", "auto / better"],
        rows=rows,
        targets=targets,
        notes=[
            f"Median (min to max) of {change.rounds} rounds, "
            "each a change and a periodic refresh of three tables in turns, "
            f"through HTTP and the ledger; {FILES} files, {KEYS:,} keys that each file holds.",
            (
                "auto / better: the median of auto from its third run on, "
                "over the lesser of the other two medians."
            ),
        ],
    )
