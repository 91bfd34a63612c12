"""Queries that are cut at each operator, for tests: an operator is computed over the rows of those below."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from mt_core.incremental.plan import Node, read_plan
from mt_core.spark.iceberg.computed_rows import ComputedRows, collect_or_checkpoint
from mt_core.spark.iceberg.inline_plans import InlinePlans
from mt_core.spark.queries.staged_query import StagedQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator of a query: the places of those below it, the roots of scalar subqueries in its
    expressions, and the number of the reading that it is.
    """

    place: str
    node: Node
    below: tuple[str, ...]
    values: tuple[str, ...]
    reading: int | None

    @property
    def words(self) -> str:
        """What a test says about the operator."""
        kind = self.node.fields.get("joinType", "")
        return f"{self.node.kind} {kind['object'] if isinstance(kind, dict) else kind} {self.place}"


def operators_of(query: StagedQuery) -> list[Operator]:
    """Return the operators of a query, each after those below it."""
    trees = [read_plan(tree) for tree in query.trees()]
    found = dict[str, Operator]()

    def add(tree: int, node: Node, path: list[int]) -> str:
        place = json.dumps([tree, path])
        if place not in found:
            found[place] = Operator(
                place=place,
                node=node,
                below=tuple(add(tree, child, [*path, each]) for each, child in enumerate(node.children)),
                values=tuple(add(each, trees[each], []) for each in sorted(set(_subqueries(node.fields)))),
                reading=node.fields.get("reading"),
            )
        return place

    add(0, trees[0], [])
    return list(found.values())


def _subqueries(body: object) -> Iterator[int]:
    """Yield the trees of the subqueries in the JSON of expressions."""
    if isinstance(body, Mapping):
        if "subquery" in body:
            yield int(body["subquery"])
        body = list(body.values())
    if isinstance(body, list):
        for each in body:
            yield from _subqueries(each)


class CutQuery:
    """A query, computed operator by operator over the rows of its readings.

    `rows` are those of each operator, and `by_jobs` are the operators that jobs have computed.
    """

    root = "[0, []]"

    def __init__(self, session: SparkSession, query: StagedQuery, leaves: Mapping[int, ComputedRows]) -> None:
        self.session, self.query, self.leaves = session, query, leaves
        self.operators = operators_of(query)
        self.readings = {each.place: each.reading for each in self.operators if each.reading is not None}
        self.rows = dict[str, ComputedRows]()
        self.by_jobs = list[Operator]()
        self._plans = InlinePlans()

    def run(self) -> None:
        """Compute the rows of all operators."""
        for operator in self.operators:
            if operator.place not in self.readings:
                self.rows[operator.place] = self._computed(operator)

    def rows_over(self, places: Collection[str]) -> DataFrame:
        """Return the rows of the query over those of its readings and of some operators."""
        return self.query.rows(
            self.root,
            {number: rows.frame for number, rows in self.leaves.items()},
            {place: self.rows[place].frame for place in places},
        )

    def _computed(self, operator: Operator) -> ComputedRows:
        places = [*operator.below, *operator.values]
        names = {place: f"r{number}" for number, place in enumerate(places)}
        given = {name: self._rows_of(place) for place, name in names.items()}

        def output(views: Mapping[str, str]) -> DataFrame:
            return self._output(operator, {each: self.session.table(views[names[each]]) for each in places})

        few = self._plans.run(self.session, None, operator.place, output, given)
        if few is not None:
            return few
        self.by_jobs.append(operator)
        return collect_or_checkpoint(
            self._output(operator, {each: given[names[each]].frame for each in places})
        )

    def _rows_of(self, place: str) -> ComputedRows:
        return self.leaves[self.readings[place]] if place in self.readings else self.rows[place]

    def _output(self, operator: Operator, given: Mapping[str, DataFrame]) -> DataFrame:
        return self.query.rows(
            operator.place,
            {self.readings[place]: rows for place, rows in given.items() if place in self.readings},
            {place: rows for place, rows in given.items() if place not in self.readings},
        )
