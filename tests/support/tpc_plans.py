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
from tests.support.recorded_plans import Plan

FOLDER = Path(__file__).parents[1] / "assets" / "tpc_plans"
SUITES = ("tpch", "tpcds")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedQuery:
    """The columns of a query, its sources in the order in which its text reads them, its plan with numbered
    readings, and the subqueries that remain in the expressions of the plan.

    `obstacle` is the reason why refreshes apply no change whatever the plan is, or None.
    """

    columns: tuple[Column, ...]
    readings: tuple[str, ...]
    plan: Plan
    subqueries: list[Plan]
    obstacle: str | None = None

    @property
    def has_limit(self) -> bool:
        """Whether the query ends with a LIMIT."""
        return bool(self.plan[0]["class"] == "GlobalLimit")

    def without_limit(self) -> RecordedQuery:
        """Return the same query without the LIMIT at its end, which stands in two operators."""
        # The only obstacle among these queries is such a LIMIT without ORDER BY.
        return replace(self, plan=self.plan[2:], obstacle=None) if self.has_limit else self


@cache
def recorded_queries(suite: str) -> Mapping[str, RecordedQuery]:
    """Return the queries of `tpch` or `tpcds` by their names, such as q6."""
    return {
        name: RecordedQuery(
            columns=tuple(Column(name=column, type=type_) for column, type_ in fields["columns"]),
            readings=tuple(fields["readings"]),
            plan=fields["plan"],
            subqueries=fields["subqueries"],
            obstacle=fields["obstacle"],
        )
        for name, fields in json.loads(lzma.decompress(_file(suite).read_bytes())).items()
    }


def write_queries(suite: str, queries: Mapping[str, RecordedQuery]) -> None:
    """Store *queries*, each as one line of compressed JSON."""
    lines = (
        json.dumps(name)
        + ":"
        + json.dumps(
            {
                "columns": [[column.name, column.type] for column in query.columns],
                "readings": query.readings,
                "obstacle": query.obstacle,
                "plan": query.plan,
                "subqueries": query.subqueries,
            },
            separators=(",", ":"),
        )
        for name, query in queries.items()
    )
    FOLDER.mkdir(exist_ok=True)
    _file(suite).write_bytes(lzma.compress(("{\n" + ",\n".join(lines) + "\n}\n").encode(), preset=9))


def _file(suite: str) -> Path:
    return FOLDER / f"{suite}.json.xz"
