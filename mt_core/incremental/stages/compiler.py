"""The compiler of stages: it cuts a query at its lowest aggregates, whose groups become states.

A refresh has the changed rows of the sources. Below an aggregate they pass through a *block*
(`mt_core.incremental.stages.blocks`), which says how its rows change. So the groups of the added rows less
those of the removed rows are the change of the state. All operators above the lowest aggregates are the
*rest*, which is computed over the states as over tables. Nothing has to be known of the rest, which is why
HAVING, ratios, windows and aggregates of aggregates have no rules.

The plan is read bottom-up. An aggregate over readings is a stage if

- its functions have accumulators,
- the operators below it form a block, and
- their values are reproducible.

A state is kept to spare reading its sources. If the rest reads all of them as well, the aggregate becomes a
computed reading, and the plan is read again: the aggregate above it may now be a stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mt_core.incremental.plan import TRANSPARENT, Node, read_plan, reading_of
from mt_core.incremental.stages.accumulators import obstacle_of, obstacle_of_key
from mt_core.incremental.stages.blocks import Blocks, Place, place_of
from mt_core.incremental.stages.first_rows import Limit, limit_of
from mt_core.incremental.stages.query_blocks import blocks_of, subqueries_in
from mt_core.incremental.stages.stage_name import functions_in, stage_name
from mt_core.incremental.stages.stage_plan import Stage, StagePlan
from mt_core.incremental.stages.values import Subqueries
from mt_core.incremental.stages.words import words_of_aggregate

# Operators that treat each row alone.
_ROW_BY_ROW = frozenset({"Project", "Filter", *TRANSPARENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """An aggregate at its place, over `blocks`. `tables` are the readings of tables below it."""

    place: Place
    aggregate: Node
    blocks: Blocks
    tables: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What the compiler knows of the output of an operator.

    `cuts` are the stages below, and `readings` those that none of them contains, as often as the plan reads
    them.
    """

    readings: tuple[int, ...] = ()
    cuts: tuple[_Cut, ...] = ()


def compile_stages(
    trees: Sequence[Sequence[Mapping[str, Any]]],
    *,
    sources: Sequence[str],
    version: str,
    obstacle: str | None = None,
) -> StagePlan | str:
    """Return the stages of a query, or the reason why it has none.

    *trees* are the query and its scalar subqueries, as JSON with facts for the compiler. *sources* are the
    names of the readings by number, *version* is Spark's. *obstacle* is the reason why no aggregate has a
    state, if none can; values of scalar subqueries in the rows of the query may still be kept.
    """
    query = _Query(
        trees=tuple(map(read_plan, trees)), sources=sources, next_number=len(sources), obstacle=obstacle
    )
    subqueries = Subqueries(trees=query.trees)
    cuts = query.useful_cuts(range(len(trees)))
    rows = None if query.part_of(0).cuts or not subqueries.in_tree(0) else query.rows()
    if isinstance(rows, Blocks) and rows.tables() and not (cuts and rows.refused()):
        # Its readings are read whole only if a value changes, so states in the subqueries spare reading them.
        query.computed.clear()
        cuts = query.useful_cuts(range(1, len(trees)))
    elif not cuts:
        return "; ".join(dict.fromkeys(query.reasons)) or "it has no aggregate"
    else:
        rows = None
    names = subqueries.names(sources, version)
    stages = _shared(cuts, subqueries, names, sources, version)
    states = {place: stage.name for stage in stages for place in stage.places}
    kept = frozenset([] if rows is None else subqueries.in_tree(0)).union(*(each.values for each in stages))
    rest, above = subqueries.read(states, kept) if rows is None else (frozenset[int](), frozenset[str]())
    return StagePlan(
        stages=stages,
        rest=rest,
        row_keys=None if rows is not None else _row_keys(query.trees[0], cuts[0]),
        values=tuple(subqueries.value(number, names[number], states, kept) for number in sorted(kept)),
        inner=frozenset(states.values()) - above,
        rows=rows,
    )


def compile_rows(trees: Sequence[Sequence[Mapping[str, Any]]], *, sources: Sequence[str]) -> Blocks | str:
    """Return the rows of a query without stages as a block, or why their change is not computed.

    The parameters are those of `compile_stages`.
    """
    query = _Query(trees=tuple(map(read_plan, trees)), sources=sources, next_number=len(sources))
    rows = query.rows()
    if isinstance(rows, str) or not Subqueries(trees=query.trees).in_tree(0):
        return rows
    return "a scalar subquery is in the query"


def compile_first_rows(
    trees: Sequence[Sequence[Mapping[str, Any]]], *, sources: Sequence[str]
) -> tuple[Blocks, Limit] | None:
    """Return the rows below the ORDER BY and LIMIT of a query as a block, or None if the query has others.

    The parameters are those of `compile_stages`.
    """
    query = _Query(trees=tuple(map(read_plan, trees)), sources=sources, next_number=len(sources))
    limit = limit_of(query.trees[0])
    if limit is None or Subqueries(trees=query.trees).in_tree(0):
        return None
    rows = query.blocks(limit.place, "below a LIMIT")
    return None if isinstance(rows, str) else (rows, limit)


def _spared(cut: _Cut, rest: frozenset[int], sources: Sequence[str]) -> set[str]:
    """Return the sources that nothing but the state of an aggregate needs."""
    return {sources[number] for number in cut.tables} - {sources[number] for number in rest}


def _shared(
    cuts: Iterable[_Cut],
    subqueries: Subqueries,
    values: Mapping[int, str],
    sources: Sequence[str],
    version: str,
) -> tuple[Stage, ...]:
    """Return the stages of *cuts*. Cuts that Spark found to compute the same share one.

    *values* are the names of the values of scalar subqueries, by tree.
    """
    same: dict[Place, list[_Cut]] = {}
    for cut in cuts:
        same.setdefault(cut.aggregate.fields["same"], []).append(cut)
    stages: dict[str, Stage] = {}
    for first, *others in same.values():
        below = subqueries.below(first.aggregate)
        named = [values[each] for each in below]
        names = (
            stage_name(first.aggregate, sources, version=version, values=named, distinguished=number)
            for number in range(len(same))
        )
        name = next(name for name in names if name not in stages)
        stages[name] = Stage(
            name=name,
            places=tuple(cut.place for cut in (first, *others)),
            readings=first.tables,
            keys=len(first.aggregate.fields["keyTypes"]) or _distinct_functions(first.aggregate),
            words=words_of_aggregate(first.aggregate),
            blocks=first.blocks,
            values=frozenset(below),
        )
    return tuple(stages.values())


@dataclass(slots=True, kw_only=True)
class _Query:
    """The trees of a query, the `computed` aggregates that are no stages, and the `cuts` at the others.

    A cut is the reason why there is none, if an aggregate is no stage. `useless` has the reasons why there
    is no use for some, and `obstacle` the one that holds for all.
    """

    trees: Sequence[Node]
    sources: Sequence[str]
    next_number: int
    obstacle: str | None = None
    computed: set[Place] = field(default_factory=set)
    cuts: dict[Place, _Cut | str] = field(default_factory=dict)
    useless: list[str] = field(default_factory=list)

    @property
    def reasons(self) -> list[str]:
        """Why lowest aggregates are no stages."""
        return [*self.useless, *(cut for cut in self.cuts.values() if isinstance(cut, str))]

    def useful_cuts(self, trees: Iterable[int]) -> list[_Cut]:
        """Return the stages in some trees, without those whose sources these trees read anyway."""
        while True:
            parts = [self.part_of(number) for number in trees]
            cuts = [cut for part in parts for cut in part.cuts]
            rest = frozenset(number for part in parts for number in part.readings)
            useless = [cut for cut in cuts if not _spared(cut, rest, self.sources)]
            if not useless:
                return cuts
            # An aggregate above them may have a state that spares reading their sources.
            self.computed.update(cut.place for cut in useless)
            names = [self.sources[min(cut.tables)] for cut in useless]
            self.useless += [f"the rest of the query reads {name} as well" for name in names]

    def rows(self) -> Blocks | str:
        """Return the rows of the query as a block, or which operator is an obstacle."""
        return self.blocks(place_of(0), "in the query")

    def part_of(self, tree: int) -> _Part:
        """Return the part of a whole tree."""
        return self._part(self.trees[tree], tree, ())

    def _part(self, node: Node, tree: int, path: tuple[int, ...]) -> _Part:
        if (reading := reading_of(node)) is not None:
            return _Part(readings=(reading,))
        below = [self._part(child, tree, (*path, number)) for number, child in enumerate(node.children)]
        part = _Part(
            readings=tuple(number for each in below for number in each.readings),
            cuts=tuple(cut for each in below for cut in each.cuts),
        )
        place = place_of(tree, path)
        if node.kind != "Aggregate" or part.cuts or not part.readings or place in self.computed:
            return part
        if place not in self.cuts:
            below_it = place_of(tree, (*path, 0))
            self.cuts[place] = self._cut(node, place, below_it)
        cut = self.cuts[place]
        return part if isinstance(cut, str) else _Part(cuts=(cut,))

    def _cut(self, node: Node, place: Place, below: Place) -> _Cut | str:
        """Return the stage that an aggregate is, or why it is none."""
        if (obstacle := self._in_aggregate(node)) is not None:
            return obstacle
        blocks = self.blocks(below, "below an aggregate")
        if isinstance(blocks, str):
            return blocks
        if value := blocks.unstable_below(blocks.root):
            return f"{value} is below an aggregate and is not reproducible"
        return _Cut(place=place, aggregate=node, blocks=blocks, tables=blocks.tables())

    def blocks(self, place: Place, where: str) -> Blocks | str:
        """Return the blocks of an operator, or which operator *where* is an obstacle."""
        blocks = blocks_of(self.trees, place, self.next_number)
        if isinstance(blocks, str):
            return f"{blocks} is {where}"
        self.next_number = max(blocks.computed, default=self.next_number - 1) + 1
        return blocks

    def _in_aggregate(self, node: Node) -> str | None:
        """Return why an aggregate is no stage, whatever is below it, or None."""
        if self.obstacle is not None:
            return self.obstacle
        if not node.fields["deterministic"]:
            return "an expression that is not deterministic is in an aggregate"
        types = node.fields["keyTypes"]
        obstacles = [
            *(obstacle_of(each, has_keys=bool(types)) for each in node.fields["functions"]),
            *map(obstacle_of_key, types),
        ]
        distinct = [each.children[0] for each in functions_in(node) if each.fields["isDistinct"]]
        if any(len(each.children) != 1 for each in distinct):
            obstacles.append("a DISTINCT function has several arguments")
        return next((each for each in obstacles if each is not None), None)


def _distinct_functions(aggregate: Node) -> int:
    """Return of how many DISTINCT functions the arguments are the keys of a state without grouping keys."""
    return sum(bool(each["distinct"]) for each in aggregate.fields["functions"])


def _row_keys(root: Node, stage: _Cut) -> tuple[int, ...] | None:
    """Return the positions of the columns of the result that have the keys of *stage*.

    The result has such columns if the operators above the stage treat each of its rows alone.
    """
    above, node = list[Node](), root
    while node is not stage.aggregate and node.kind in _ROW_BY_ROW:
        above.append(node)
        node = node.children[0]
    has_subqueries = any(True for _ in subqueries_in([each.fields for each in (*above, node)]))
    if node is not stage.aggregate or has_subqueries:
        return None
    grouping = [each.canonical() for each in node.expressions("groupingExpressions")]
    items = node.expressions("aggregateExpressions")
    column_keys = [
        grouping.index(form) if (form := item.value().canonical()) in grouping else None for item in items
    ]
    ids = [item.identity for item in items]
    for project in reversed([each for each in above if each.kind == "Project"]):
        keys = dict(zip(ids, column_keys, strict=True))
        items = project.expressions("projectList")
        column_keys = [
            keys.get(value.identity) if (value := item.value()).kind == "AttributeReference" else None
            for item in items
        ]
        ids = [item.identity for item in items]
    if not grouping or not set(range(len(grouping))) <= set(column_keys):
        return None
    return tuple(column_keys.index(key) for key in range(len(grouping)))
