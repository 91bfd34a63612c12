"""Recorded Spark plans of the queries of TPC-H and TPC-DS.

`python -m tests.integration.tpc_plans` records them. The texts of the queries are not stored.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from mt_core.model.table import Column
from tests.support.recorded_plans import Plan, lines_of

FOLDER = Path(__file__).parents[1] / "assets" / "tpc_plans"
SUITES = ("tpch", "tpcds")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedQuery:
    """The columns of a query, its sources in the order in which its text reads them, its plan with numbered
    readings, and the subqueries that remain in the expressions of the plan. `trees` are the reduced plan and
    those of its scalar subqueries, as stages are compiled from them.

    `obstacle` is the reason why refreshes apply no change whatever the plan is, or None.
    """

    columns: tuple[Column, ...]
    readings: tuple[str, ...]
    plan: Plan
    subqueries: list[Plan]
    trees: list[Plan]
    obstacle: str | None = None

    @property
    def has_limit(self) -> bool:
        """Whether the query ends with a LIMIT."""
        return bool(self.plan[0]["class"] == "GlobalLimit")

    def without_limit(self) -> RecordedQuery:
        """Return the same query without the LIMIT at its end, which stands in two operators."""
        # The only obstacle among these queries is such a LIMIT without ORDER BY.
        if not self.has_limit:
            return self
        # It is not in the reduced plan if there is at most one row.
        first, *others = self.trees
        first = first[2:] if first[0]["class"] == "GlobalLimit" else first
        return replace(self, plan=self.plan[2:], trees=[first, *others], obstacle=None)


@cache
def recorded_queries(suite: str) -> Mapping[str, RecordedQuery]:
    """Return the queries of `tpch` or `tpcds` by their names, such as q6."""
    return {
        name: RecordedQuery(
            columns=tuple(Column(name=column, type=type_) for column, type_ in fields["columns"]),
            readings=tuple(fields["readings"]),
            plan=fields["plan"],
            subqueries=fields["subqueries"],
            trees=fields["trees"],
            obstacle=fields["obstacle"],
        )
        for name, fields in json.loads(lzma.decompress(_file(suite).read_bytes())).items()
    }


def write_queries(suite: str, queries: Mapping[str, RecordedQuery]) -> None:
    """Store *queries*, each as one line of compressed JSON."""
    fields = {
        name: {
            "columns": [[column.name, column.type] for column in query.columns],
            "readings": query.readings,
            "obstacle": query.obstacle,
            "plan": query.plan,
            "subqueries": query.subqueries,
            "trees": query.trees,
        }
        for name, query in queries.items()
    }
    FOLDER.mkdir(exist_ok=True)
    _file(suite).write_bytes(lzma.compress(lines_of(fields).encode(), preset=9))


def _file(suite: str) -> Path:
    return FOLDER / f"{suite}.json.xz"
