"""How refreshes apply changes to the queries of TPC-H and TPC-DS, as a page: from their recorded plans alone.

`python -m tests.support.tpc_strategies` writes the page again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from mt_core.incremental.changes import ChangeKind, SourceChange
from mt_core.incremental.merging import check_types
from mt_core.incremental.shape import read_shape
from mt_core.incremental.stages.compiler import compile_first_rows, compile_rows, compile_stages
from mt_core.incremental.stages.stage_plan import StagePlan
from mt_core.incremental.strategy import Strategy, Way
from mt_core.model.table import TableDefinition
from mt_core.tables.engine import ShapedQuery
from mt_core.tables.refresh.forecast import kept_stages, strategy_for
from tests.support.shape_strategies import definition_of
from tests.support.tpc_plans import FOLDER, RecordedQuery, recorded_queries

PAGE = FOLDER / "strategies.md"
TITLES = {"tpch": "TPC-H", "tpcds": "TPC-DS"}
FACTS = {
    "tpch": ("lineitem", "orders", "partsupp"),
    "tpcds": (
        *("store_sales", "store_returns", "catalog_sales", "catalog_returns"),
        *("web_sales", "web_returns", "inventory"),
    ),
}
HEAD = """\
# How refreshes apply changes to the queries of TPC-H and TPC-DS

`python -m tests.support.tpc_strategies` writes this page from the recorded plans: what the rules allow,
whatever it costs. *Appends* are appended rows, *rows* are updated and deleted rows. *Alone* means that one
source changed; a way without sources is that of all sources that the cell does not name. The ways are those
of each query without the LIMIT at its end. The column *LIMIT* has all ways of the query with it, or - if it
has none. *Why* has the reasons for which changed rows are recomputed, with their sources if these are not
all.
"""
KINDS = (ChangeKind.APPENDS, ChangeKind.ROWS)
NO_KEY = "no column divides the result by the changed rows: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecasts:
    """The strategies of a query for changes of its `sources`: of each alone, and of several at once."""

    sources: tuple[str, ...]
    shaped: ShapedQuery | str
    definition: TableDefinition

    def of(self, kind: ChangeKind, sources: Collection[str]) -> Strategy:
        """Return the strategy if *sources* change at once."""
        if isinstance(self.shaped, str):
            return Strategy(way=Way.RECOMPUTE, reason=self.shaped)
        changes = {
            number: SourceChange(kind=kind)
            for number, source in enumerate(self.shaped.readings)
            if source in sources
        }
        return strategy_for(self.shaped, changes, self.definition)

    def alone(self, kind: ChangeKind) -> Mapping[str, Strategy]:
        return {source: self.of(kind, (source,)) for source in self.sources}

    def at_once(self, kind: ChangeKind) -> Strategy:
        return self.of(kind, self.sources)

    @property
    def stages(self) -> StagePlan | None:
        """The stages that maintain the query, or None if its changes are applied without states."""
        return None if isinstance(self.shaped, str) else kept_stages(self.shaped, self.definition)

    @property
    def is_maintained(self) -> bool:
        """Whether some change of one source is applied."""
        return any(each.way is not Way.RECOMPUTE for kind in KINDS for each in self.alone(kind).values())

    def all(self, kind: ChangeKind) -> Iterator[Strategy]:
        yield from self.alone(kind).values()
        yield self.at_once(kind)


def forecasts_of(query: RecordedQuery) -> Forecasts:
    """Return the strategies of a table that stores the columns of *query* as they are."""
    stages = compile_stages(query.trees, sources=query.readings, version="")
    rows = compile_rows(query.trees, sources=query.readings)
    first = compile_first_rows(query.trees, sources=query.readings)
    shape = read_shape(query.plan, query.subqueries)
    shape = replace(shape, stages=stages, rows=rows, first_rows=first)
    if not isinstance(shape.merge, str):
        types = {column.name: column.type for column in query.columns}
        shape = replace(shape, merge=check_types(shape.merge, types, null_after_overflow=False))
    return Forecasts(
        sources=tuple(dict.fromkeys(query.readings)),
        shaped=query.obstacle or ShapedQuery(shape=shape, columns=query.columns, readings=query.readings),
        definition=definition_of(query.columns),
    )


@cache
def unlimited_forecasts(suite: str) -> Mapping[str, Forecasts]:
    """Return the strategies of each query without the LIMIT at its end."""
    return {name: forecasts_of(query.without_limit()) for name, query in recorded_queries(suite).items()}


def page() -> str:
    """Return the page, as Markdown."""
    return "\n".join([HEAD, *(line for suite in TITLES for line in _suite(suite))])


def _suite(suite: str) -> Iterator[str]:
    queries = recorded_queries(suite)
    written = {name: forecasts_of(query) for name, query in queries.items()}
    unlimited = unlimited_forecasts(suite)
    yield f"## {TITLES[suite]}\n"
    accepted = sum(each.is_maintained for each in written.values())
    yield (
        f"Of {len(queries)} queries, 'refresh.strategy' = 'incremental' is accepted for {accepted} as they "
        "are. Maintained are:\n"
    )
    yield from _table(
        "changed | read by | appends | rows | appends, with LIMIT | rows, with LIMIT",
        _counts(FACTS[suite], unlimited, written),
    )
    yield from _table(
        "query | appends alone | appends at once | rows alone | rows at once | LIMIT | why",
        (
            (name, *_ways(unlimited[name]), _limited(query, written[name]), _reasons(unlimited[name]))
            for name, query in queries.items()
        ),
    )


def _table(head: str, rows: Iterator[Sequence[object]]) -> Iterator[str]:
    yield f"| {head} |"
    yield f"|{'---|' * (head.count('|') + 1)}"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"
    yield ""


def _counts(
    facts: Sequence[str], unlimited: Mapping[str, Forecasts], written: Mapping[str, Forecasts]
) -> Iterator[Sequence[object]]:
    changed = {fact: {fact} for fact in facts}
    changed["these at once"] = set(facts)
    changed["all sources at once"] = {source for each in written.values() for source in each.sources}
    for label, sources in changed.items():
        names = [name for name, each in written.items() if sources.intersection(each.sources)]
        maintained = (
            sum(
                forecasts[name].of(kind, sources.intersection(forecasts[name].sources)).way
                is not Way.RECOMPUTE
                for name in names
            )
            for forecasts in (unlimited, written)
            for kind in KINDS
        )
        yield (label, len(names), *maintained)


def _ways(forecasts: Forecasts) -> Iterator[str]:
    for kind in KINDS:
        alone = {source: each.way for source, each in forecasts.alone(kind).items()}
        (most, _), *others = Counter(alone.values()).most_common()
        named = (
            f"{way}: {', '.join(source for source in alone if alone[source] is way)}" for way, _ in others
        )
        yield "; ".join([most, *named])
        yield forecasts.at_once(kind).way


def _limited(query: RecordedQuery, forecasts: Forecasts) -> str:
    if not query.has_limit:
        return "-"
    ways = {each.way for kind in KINDS for each in forecasts.all(kind)}
    return ", ".join(way for way in Way if way in ways)


def _reasons(forecasts: Forecasts) -> str:
    """Return the reasons for recomputing changed rows, each once, with the sources that have it."""
    sources: dict[str, dict[str, None]] = {}
    for strategy in forecasts.all(ChangeKind.ROWS):
        if strategy.way is Way.RECOMPUTE:
            for each in strategy.reason.removeprefix(NO_KEY).split("; "):
                source, _, reason = each.rpartition(": ")
                sources.setdefault(reason, {})[source] = None
    return "; ".join(
        reason
        if len(having) in (0, len(forecasts.sources)) or "" in having
        else f"{reason}: {', '.join(having)}"
        for reason, having in sources.items()
    )


def write() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
