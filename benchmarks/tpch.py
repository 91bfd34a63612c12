"""What does a refresh of each query of TPC-H cost after changes of several of its sources?

It is compared with a recomputation. It needs DuckDB, which has the texts of the queries, in an environment
that is created in the user's cache.
"""

from __future__ import annotations

import os
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from benchmarks.embedded import Embedded, embedded_gateway
from benchmarks.report import Finding, Target
from benchmarks.sampling import Samples, show, timed
from benchmarks.tpch_data import TpchData
from mt_core.client.http import Refresh
from mt_core.errors import GatewayError
from tests.integration.tpc import tpc_suite

NAMESPACE = "lake.default"
FULL = "full"
MOST, MOST_RECOMPUTED = 0.4, 2
# The queries whose stages were prototyped.
SOME = tuple(f"q{number}" for number in (1, 3, 4, 5, 6, 12, 13, 15, 17, 18, 21, 22))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What share of the rows changes in each way before a round, and the number of rounds.

    If no queries are named, `queries` are measured, or all if it is None. `is_limited` says whether the
    figures have targets.
    """

    share: float
    rounds: int
    queries: tuple[str, ...] | None = None
    is_limited: bool = False


CASES = (
    Case(share=0.001, rounds=3, is_limited=True),
    Case(share=0.0001, rounds=2, queries=SOME),
    Case(share=0.01, rounds=2, queries=SOME),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TpchOptions:
    """The rows of `lineitem`, the queries by their names or none for all, and the strategy that is compared
    with `full`. `shares` are those of the cases to run.
    """

    lineitems: int = 6_000_000
    queries: tuple[str, ...] = ()
    strategy: str = "incremental"
    shares: tuple[float, ...] = tuple(case.share for case in CASES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """A refresh: its duration, its processor time in all processes, its strategy, and the reason for it."""

    seconds: float
    processor_s: float
    way: str
    reason: str


@dataclass(slots=True)
class Taken:
    """The refreshes of the two tables of one query, and whether their rows were equal after each round."""

    refreshes: dict[str, list[Refreshed]] = field(default_factory=dict)
    are_equal: list[bool] = field(default_factory=list)

    def seconds(self, strategy: str) -> Samples:
        return Samples([each.seconds for each in self.refreshes[strategy]])

    def processor_s(self, strategy: str) -> Samples:
        return Samples([each.processor_s for each in self.refreshes[strategy]])

    def ratio(self, strategy: str, capture_s: float = 0.0) -> float:
        return (self.seconds(strategy).median + capture_s) / self.seconds(FULL).median

    def processor_ratio(self, strategy: str) -> float:
        return self.processor_s(strategy).median / self.processor_s(FULL).median

    def ways(self, strategy: str) -> str:
        return " ".join(dict.fromkeys(each.way for each in self.refreshes[strategy]))


@dataclass(slots=True)
class Rounds:
    """The refreshes of all rounds of a case, by query, and the durations of the captures, by source."""

    taken: dict[str, Taken] = field(default_factory=dict)
    captures: dict[str, list[float]] = field(default_factory=dict)


def measure(options: TpchOptions) -> Iterator[Finding]:
    """Yield a table for each share of changed rows."""
    with TemporaryDirectory(prefix="freshtable-tpch-") as folder:
        texts = tpc_suite("tpch", Path(folder)).queries
    if unknown := sorted({*options.queries} - texts.keys()):
        raise SystemExit(f"tpch has no query {', '.join(unknown)}. Its queries are {', '.join(texts)}.")
    queries = {name: text for name, text in texts.items() if name in (options.queries or texts)}
    with embedded_gateway() as gateway:
        tables = MeasuredTables(gateway, options, queries)
        tables.create()
        # The first changes bring all tables to the same versions, and warm up the JVM.
        tables.play(Case(share=CASES[0].share, rounds=1))
        for case in CASES:
            if case.share in options.shares:
                yield tables.finding(case, tables.play(case))


class MeasuredTables:
    """The sources, and two materialized tables for each query: one that is recomputed, and one that is not.

    For each source that changes, a further table reads its changed rows first, and selects none. They are
    then cached for the tables of the queries.
    """

    def __init__(self, gateway: Embedded, options: TpchOptions, queries: Mapping[str, str]) -> None:
        self.gateway, self.queries, self.strategy = gateway, queries, options.strategy
        self._named = options.queries
        self.data = TpchData(namespace=NAMESPACE, lineitems=options.lineitems)
        self.created: dict[str, dict[str, float]] = {}
        self.readers: dict[str, int] = {}
        self._numbers, self._next_order = count(1), self.data.orders
        self._processes: list[psutil.Process] = []

    def create(self) -> None:
        for statement in self.data.creations():
            self.gateway.spark.sql(statement)
        self._processes = [psutil.Process(os.getpid()), *psutil.Process(os.getpid()).children(recursive=True)]
        for source, column in self.data.changing.items():
            query = f"SELECT * FROM {source} WHERE {column} < 0"
            self._create(f"captured_{source}", "incremental", query)
        for number, (name, text) in enumerate(self.queries.items()):
            self.created[name] = {
                strategy: timed(partial(self._create_as_allowed, f"{name}_{strategy}", strategy, text))
                for strategy in self._strategies(number)
            }
        for source in self.data.changing:
            self.readers[source] = sum(_reads(text, source) for text in self.queries.values())

    def play(self, case: Case) -> Rounds:
        """Change the sources and refresh all tables, in turns, as often as *case* says."""
        rounds = Rounds()
        for number in range(case.rounds):
            new = round(self.data.orders * case.share)
            for statement in self.data.changes(case.share, next(self._numbers), self._next_order, new):
                self.gateway.spark.sql(statement)
            self._next_order += new
            for source in self.data.changing:
                capture = self._refreshed(f"captured_{source}")
                rounds.captures.setdefault(source, []).append(capture.seconds)
            measured = self._named or case.queries or tuple(self.queries)
            names = [name for name in self.queries if name in measured]
            for position, name in enumerate(names):
                taken = rounds.taken.setdefault(name, Taken())
                for strategy in self._strategies(number + position):
                    refreshed = self._refreshed(f"{name}_{strategy}")
                    taken.refreshes.setdefault(strategy, []).append(refreshed)
                taken.are_equal.append(self._are_equal(name))
        return rounds

    def finding(self, case: Case, rounds: Rounds) -> Finding:
        taken = rounds.taken
        ratios = {name: each.ratio(self.strategy) for name, each in taken.items()}
        shared = {
            name: each.ratio(self.strategy, self._capture_s(name, rounds)) for name, each in taken.items()
        }
        processor = {name: each.processor_ratio(self.strategy) for name, each in taken.items()}
        rows = [
            [
                name,
                show(each.seconds(FULL).median),
                show(each.processor_s(FULL).median),
                show(each.seconds(self.strategy).median),
                show(each.processor_s(self.strategy).median),
                *(f"{figures[name]:.2f}" for figures in (ratios, processor, shared)),
                each.ways(self.strategy),
                "yes" if all(each.are_equal) else "NO",
            ]
            for name, each in taken.items()
        ]
        creations = [each[self.strategy] / each[FULL] for each in self.created.values()]
        means = [statistics.geometric_mean(figures.values()) for figures in (ratios, processor, shared)]
        rows.append(["geometric mean", *[""] * 4, *(f"{mean:.2f}" for mean in means), "", ""])
        return Finding(
            title=f"TPC-H after {case.share:.2%} of {self.data.lineitems:,} lineitems changed in each way",
            columns=[
                "query",
                *("full", "CPU", self.strategy, "CPU", "ratio", "CPU ratio", "with capture", "way", "equal"),
            ],
            rows=rows,
            targets=self._targets(case, taken, means[0]),
            notes=[
                f"Medians of {case.rounds} rounds. In each, {case.share:.2%} of the orders come "
                "and go with their lineitems, and the same share of lineitems, customers and suppliers of "
                "parts is updated, spread over all files. Then each table is refreshed periodically, through "
                "HTTP and the ledger, in turns. Processor time is that of all processes of the gateway.",
                "Before that, the changed rows of each source are read for all tables: "
                + ", ".join(f"{source} {show(statistics.median(s))}" for source, s in rounds.captures.items())
                + ". The column with capture divides these times among the queries that read the source.",
                f"CREATE with its first refresh, {self.strategy} / full, geometric mean: "
                f"{statistics.geometric_mean(creations):.2f}.",
                *(
                    f"{name}: {each.refreshes[self.strategy][-1].reason}"
                    for name, each in taken.items()
                    if "recompute" in each.ways(self.strategy)
                ),
            ],
        )

    def _targets(self, case: Case, taken: Mapping[str, Taken], mean: float) -> list[Target]:
        different = [name for name, each in taken.items() if not all(each.are_equal)]
        equal = Target(
            asked="the same rows after each round",
            measured=f"different: {' '.join(different) or 'none'}",
            met=not different,
        )
        if not case.is_limited:
            return [equal]
        recomputed = [name for name, each in taken.items() if "recompute" in each.ways(self.strategy)]
        return [
            equal,
            Target(
                asked=f"a geometric mean of at most {MOST} of a recomputation",
                measured=f"{mean:.2f}",
                met=mean <= MOST,
            ),
            Target(
                asked=f"at most {MOST_RECOMPUTED} queries recomputed",
                measured=f"{len(recomputed)}: {' '.join(recomputed) or 'none'}",
                met=len(recomputed) <= MOST_RECOMPUTED,
            ),
        ]

    def _capture_s(self, name: str, rounds: Rounds) -> float:
        """Return the share of a query in the durations of the captures."""
        return sum(
            statistics.median(seconds) / self.readers[source]
            for source, seconds in rounds.captures.items()
            if _reads(self.queries[name], source)
        )

    def _strategies(self, number: int) -> Sequence[str]:
        return (FULL, self.strategy) if number % 2 else (self.strategy, FULL)

    def _create_as_allowed(self, table: str, strategy: str, query: str) -> None:
        try:
            self._create(table, strategy, query)
        except GatewayError:
            # No change of its sources could be applied.
            self._create(table, "auto", query)

    def _create(self, table: str, strategy: str, query: str) -> None:
        self.gateway.sql(
            f"CREATE MATERIALIZED TABLE {table} WITH ('refresh.strategy' = '{strategy}') "
            f"FRESHNESS = INTERVAL '7' DAY REFRESH_MODE = FULL AS {query}"
        )

    def _refreshed(self, table: str) -> Refreshed:
        """Refresh as the scheduler does, because a manual refresh computes all rows."""
        refresh = Refresh(
            identifier=f"{NAMESPACE}.{table}",
            is_periodic=True,
            schedule_time=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}",
        )
        before = self._processor_s()
        seconds = timed(partial(self.gateway.refresh, refresh))
        processor_s = self._processor_s() - before
        run = self._last_run(table)
        return Refreshed(
            seconds=seconds, processor_s=processor_s, way=str(run["strategy"]), reason=str(run["reason"])
        )

    def _last_run(self, table: str) -> Mapping[str, object]:
        shown = self.gateway.sql(f"SHOW REFRESHES FOR {table} EXTENDED LIMIT 1")
        page = next(page for page in shown if page.rows)
        return dict(zip([column.name for column in page.columns], page.rows[0], strict=True))

    def _processor_s(self) -> float:
        times = [process.cpu_times() for process in self._processes if process.is_running()]
        return sum(each.user + each.system for each in times)

    def _are_equal(self, name: str) -> bool:
        one, other = (f"{NAMESPACE}.{name}_{strategy}" for strategy in (FULL, self.strategy))
        for table in (one, other):
            self.gateway.spark.sql(f"REFRESH TABLE {table}")
        different = self.gateway.spark.sql(
            f"(TABLE {one} EXCEPT ALL TABLE {other}) UNION ALL (TABLE {other} EXCEPT ALL TABLE {one})"
        )
        return different.isEmpty()


def _reads(query: str, source: str) -> bool:
    return re.search(rf"\b{source}\b", query) is not None
