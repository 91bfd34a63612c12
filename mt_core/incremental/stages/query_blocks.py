"""The blocks of a query: which of its operators are linear, and what computes the others.

`blocks_of` reads a plan from an operator downwards. Each operator extends the block of the operators below it
or, if it is not linear, ends their blocks and becomes a reading of the block above it:

- projections, filters, generators, inner joins, and joins with rows that never change extend a block;
- outer, semi, anti and existence joins, aggregates, windows and UNIONs are computed readings;
- a LIMIT, and an aggregate, a window or a full join that has no key, is computed whole, so its readings must
  not change;
- any other operator is an obstacle. So an operator of a future Spark leads to fewer blocks and never to wrong
  rows.

Columns are followed from the relations upwards, as long as operators return them unchanged. Keys are equal
columns of two readings. One that is not found here costs time and never rows, because operators evaluate
their own conditions. So computed columns, and types whose equal values differ in their bits, are no keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mt_core.incremental.plan import (
    LEFT_ONLY,
    TRANSPARENT,
    Node,
    join_type,
    joined_columns,
    reading_of,
    readings_below,
)
from mt_core.incremental.stages.accumulators import sql_name_of
from mt_core.incremental.stages.blocks import Block, Blocks, ComputedReading, Kind, Pair
from mt_core.incremental.stages.join_blocks import (
    Equality,
    JoinBlock,
    KeyColumn,
    are_comparable,
    is_key,
    key_classes,
)
from mt_core.incremental.stages.stage_plan import Place, shortened

_RELATION = "DataSourceV2Relation"
_JOINS = {
    "LeftOuter": "left join",
    "RightOuter": "right join",
    "LeftSemi": "semi join",
    "LeftAnti": "anti join",
    "ExistenceJoin": "existence join",
    "FullOuter": "full join",
}
_EQUALITIES = ("EqualTo", "EqualNullSafe")
# SQL words, for reasons.
_IN_SQL = {"Offset": "an OFFSET", "LateralJoin": "LATERAL"}


def blocks_of(trees: Sequence[Node], place: Place, first_number: int) -> Blocks | str:
    """Return the block of the operator at *place* and the computed readings below it, or what is an obstacle.

    *trees* are the query and its scalar subqueries. Computed readings have the numbers from *first_number*.
    """
    tree, path = json.loads(place)
    blocks = _BlocksOfTree(
        trees=trees, tree=tree, next_number=first_number, attributes=_attributes(trees[tree])
    )
    node = trees[tree]
    for position in path:
        node = node.children[position]
    try:
        return blocks.at(node, tuple(path))
    except _Obstacle as obstacle:
        return str(obstacle)


def is_constant(node: Node) -> bool:
    """Return whether no reading is below an operator."""
    return next(readings_below(node), None) is None


def subqueries_in(value: Any) -> Iterator[int]:
    """Yield the numbers of the trees of scalar subqueries in JSON."""
    if isinstance(value, list):
        for each in value:
            yield from subqueries_in(each)
    elif isinstance(value, Mapping):
        if "subquery" in value:
            yield value["subquery"]
        else:
            yield from subqueries_in(list(value.values()))


def words_of_aggregate(aggregate: Node) -> str:
    """Return the functions and the keys of an aggregate, such as `sum, count by city`."""
    functions = ", ".join(dict.fromkeys(map(sql_name_of, aggregate.fields["functions"]))) or "distinct"
    names = {
        item.value().canonical(): str(item.fields["name"])
        for item in aggregate.expressions("aggregateExpressions")
    }
    keys = [
        names.get(key.canonical()) or str(key.fields.get("name") or f"{key.kind.lower()}(...)")
        for key in aggregate.expressions("groupingExpressions")
    ]
    return f"{functions} by {shortened(keys)}" if keys else f"{functions} of all rows"


class _Obstacle(Exception):
    """An operator that is neither linear nor a computed reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The part of a block below an operator.

    `columns` are those of its output that have the values of a column of a reading, by their ids. `output`
    are the ids of all in order, or None if they are not known.
    """

    readings: tuple[int, ...] = ()
    equalities: tuple[Equality, ...] = ()
    columns: Mapping[int, KeyColumn] = field(default_factory=dict)
    scalars: frozenset[int] = frozenset()
    output: tuple[int, ...] | None = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Input:
    """The block of a child of an operator, with the ids of its columns."""

    block: Block
    ids: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class _BlocksOfTree:
    """The blocks of the operators of a *tree*. `attributes` are the columns that the tree reads, by id."""

    trees: Sequence[Node]
    tree: int
    next_number: int
    attributes: Mapping[int, Node]
    computed: dict[int, ComputedReading] = field(default_factory=dict)

    def at(self, node: Node, path: tuple[int, ...]) -> Blocks:
        """Return the block of an operator, with the computed readings below it."""
        blocks = Blocks(root=self._block(self._part(node, path), path), computed=self.computed)
        fixed = blocks.fixed()
        if blocks.tables() and blocks.tables() == fixed.keys():
            raise _Obstacle(next(iter(fixed.values())).words)
        return blocks

    def _block(self, part: _Part, path: tuple[int, ...]) -> Block:
        readings = tuple(sorted(part.readings))
        return Block(
            place=self._place(path),
            readings=readings,
            columns=tuple(map(part.columns.get, part.output or ())),
            joins=JoinBlock(
                readings=frozenset(readings), terms=frozenset(readings), keys=key_classes(part.equalities)
            ),
            scalars=part.scalars,
        )

    def _place(self, path: tuple[int, ...]) -> Place:
        return json.dumps([self.tree, path], separators=(",", ":"))

    # ------------------------------------------------------------------------------------- linear operators

    def _part(self, node: Node, path: tuple[int, ...]) -> _Part:
        """Return the part of a block that an operator and those below it form."""
        if (number := reading_of(node)) is not None:
            return _Part(
                readings=(number,),
                columns=_columns_of_reading(number, node),
                output=node.identities("output"),
            )
        if is_constant(node):
            return self._of_constant(node)
        scalars = self._scalars(node)
        if node.kind == "Join":
            part = self._of_join(node, path)
        elif node.kind in ("Project", "Filter", "Expand", "Generate", *TRANSPARENT):
            part = _of_one(node, self._part(node.children[0], (*path, 0)))
        else:
            part = self._computed(node, path)
        return replace(part, scalars=part.scalars | scalars)

    def _of_constant(self, node: Node) -> _Part:
        scalars = frozenset[int]().union(*(self._scalars(each) for each in node.nodes()))
        return _Part(scalars=scalars, output=_output(node))

    def _scalars(self, node: Node) -> frozenset[int]:
        """Return the scalar subqueries in an operator that are not constant."""
        if node.kind == _RELATION:
            raise _Obstacle("a relation that names its version")
        if not node.fields["deterministic"]:
            raise _Obstacle("an expression that is not deterministic")
        return frozenset(number for number in subqueries_in(node.fields) if not self._never_changes(number))

    def _never_changes(self, tree: int) -> bool:
        root = self.trees[tree]
        return is_constant(root) and not any(self._scalars(each) for each in root.nodes())

    def _of_join(self, node: Node, path: tuple[int, ...]) -> _Part:
        kind, (left, right) = join_type(node), node.children
        is_linear = kind in ("Inner", "Cross")
        if kind in _JOINS and kind != "FullOuter":
            is_linear = is_constant(left if kind == "RightOuter" else right)
        if not is_linear:
            return self._computed(node, path)
        sides = [self._part(child, (*path, number)) for number, child in enumerate(node.children)]
        part = _Part(
            readings=tuple(number for each in sides for number in each.readings),
            equalities=tuple(equality for each in sides for equality in each.equalities),
            columns={number: column for each in sides for number, column in each.columns.items()},
            scalars=frozenset[int]().union(*(each.scalars for each in sides)),
            output=_joined(node, *(each.output for each in sides)),
        )
        return _equated(node, part) if kind in ("Inner", "Cross") else part

    # ------------------------------------------------------------------------------------ computed readings

    def _computed(self, node: Node, path: tuple[int, ...]) -> _Part:
        """Return the part that consists of a computed reading."""
        first, place = self.next_number, self._place(path)
        inputs = [self._input(child, (*path, number)) for number, child in enumerate(node.children)]
        reading = self._reading(node, place, inputs)
        output = _output(node) or ()
        if reading.kind is Kind.FIXED:
            reading = replace(reading, number=first, inputs=(_whole(node, place, len(output)),))
            self.computed = {number: each for number, each in self.computed.items() if number < first}
        self.next_number = reading.number + 1
        self.computed[reading.number] = reading
        columns = {
            each: KeyColumn(reading=reading.number, column=f"c{position}", type=type_)
            for position, each in enumerate(output)
            if each in self.attributes and (type_ := self.attributes[each].data_type) is not None
        }
        return _Part(readings=(reading.number,), columns=columns, output=output)

    def _input(self, node: Node, path: tuple[int, ...]) -> _Input:
        part = self._part(node, path)
        if part.output is None:
            raise _Obstacle(f"a {node.kind} whose columns are not known")
        return _Input(block=self._block(part, path), ids=part.output)

    def _reading(self, node: Node, place: Place, inputs: Sequence[_Input]) -> ComputedReading:
        match node.kind:
            case "Join":
                return self._join(node, place, inputs)
            case "Aggregate":
                return self._groups(node, place, inputs[0])
            case "Window":
                return self._window(node, place, inputs[0])
            case "Union":
                blocks = tuple(each.block for each in inputs)
                return ComputedReading(
                    number=self.next_number, place=place, kind=Kind.UNION, inputs=blocks, words="a UNION"
                )
            case "GlobalLimit" | "LocalLimit":
                return self._fixed(place, "a LIMIT")
            case _:
                raise _Obstacle(_IN_SQL.get(node.kind, node.kind))

    def _fixed(self, place: Place, words: str) -> ComputedReading:
        return ComputedReading(number=self.next_number, place=place, kind=Kind.FIXED, inputs=(), words=words)

    def _join(self, node: Node, place: Place, inputs: Sequence[_Input]) -> ComputedReading:
        if (kind := join_type(node)) not in _JOINS:
            raise _Obstacle(f"a {kind} join")
        # The first input is the preserved side, and the output has the columns of the left side first.
        order = (1, 0) if kind == "RightOuter" else (0, 1)
        sides = inputs[order[0]], inputs[order[1]]
        pairs = tuple(dict.fromkeys(self._pairs(node, *sides)))
        words = f"a {_JOINS[kind]} {self._by([sides[0].ids[each.left] for each in pairs])}"
        if kind == "FullOuter" and not pairs:
            return self._fixed(place, words)
        passed = [(side, each) for side in order for each in range(len(sides[side].ids))]
        if kind in LEFT_ONLY or kind == "ExistenceJoin":
            passed = [each for each in passed if each[0] == 0]
        return ComputedReading(
            number=self.next_number,
            place=place,
            kind=Kind.FULL if kind == "FullOuter" else Kind.JOIN,
            inputs=tuple(each.block for each in sides),
            pairs=pairs,
            passed=(*passed, *((None,) if kind == "ExistenceJoin" else ())),
            words=words,
        )

    def _pairs(self, node: Node, left: _Input, right: _Input) -> Iterator[Pair]:
        """Yield the pairs of equal columns by which rows of both sides of a join can be found."""
        for condition in _conjuncts(node):
            if condition.kind not in _EQUALITIES:
                continue
            for columns in (condition.children, condition.children[::-1]):
                one, other = (self._key(*each) for each in zip((left, right), columns, strict=True))
                if one is None or other is None:
                    continue
                if are_comparable(left.block.columns[one], right.block.columns[other]):
                    yield Pair(left=one, right=other, null_safe=condition.kind == "EqualNullSafe")

    def _groups(self, node: Node, place: Place, child: _Input) -> ComputedReading:
        keys = self._keys(child, node.expressions("groupingExpressions"))
        words = words_of_aggregate(node)
        if not keys:
            return self._fixed(place, words)
        by_id = {child.ids[key]: (0, key) for key in keys}
        items = [item.column() for item in node.expressions("aggregateExpressions")]
        return ComputedReading(
            number=self.next_number,
            place=place,
            kind=Kind.GROUPS,
            inputs=(child.block,),
            keys=keys,
            passed=tuple(None if item is None else by_id.get(item.identity) for item in items),
            words=words,
        )

    def _window(self, node: Node, place: Place, child: _Input) -> ComputedReading:
        partition = node.expressions("partitionSpec")
        names = [str(each.fields.get("name") or "(...)") for each in partition]
        words = f"a window by {shortened(names)}" if names else "a window over all rows"
        if not (keys := self._keys(child, partition)):
            return self._fixed(place, words)
        return ComputedReading(
            number=self.next_number,
            place=place,
            kind=Kind.WINDOW,
            inputs=(child.block,),
            keys=keys,
            passed=(
                *((0, each) for each in range(len(child.ids))),
                *(None for _ in node.expressions("windowExpressions")),
            ),
            words=words,
        )

    def _keys(self, child: _Input, expressions: Iterable[Node]) -> tuple[int, ...]:
        """Return the positions of the expressions that are columns by which rows can be found."""
        positions = [self._key(child, each) for each in expressions]
        return tuple(dict.fromkeys(each for each in positions if each is not None))

    def _key(self, given: _Input, expression: Node) -> int | None:
        """Return the position of a column by which rows of a block can be found, or None."""
        column = expression.column()
        if column is None or column.identity not in given.ids:
            return None
        position = given.ids.index(column.identity)
        blocks = Blocks(root=given.block, computed=self.computed)
        return (
            position
            if is_key(given.block.columns[position]) and blocks.finds(given.block, position)
            else None
        )

    def _by(self, ids: Sequence[int]) -> str:
        names = [str(self.attributes[each].fields["name"]) for each in ids]
        return f"by {shortened(names)}" if names else "without equal columns"


def _whole(node: Node, place: Place, columns: int) -> Block:
    """Return the only input of an operator that is computed whole: itself, over all its tables."""
    readings = tuple(sorted(set(readings_below(node))))
    joins = JoinBlock(readings=frozenset(readings), terms=frozenset(readings), keys=())
    return Block(place=place, readings=readings, columns=(None,) * columns, joins=joins)


def _attributes(root: Node) -> dict[int, Node]:
    """Return the columns that the expressions of a tree read, by their ids."""
    found = dict[int, Node]()

    def add(value: Any) -> None:
        if isinstance(value, list):
            for each in value:
                add(each)
        elif isinstance(value, Mapping):
            if (
                str(value.get("class", "")).endswith(".AttributeReference")
                or value.get("class") == "AttributeReference"
            ):
                found.setdefault(
                    value["exprId"]["id"], Node(kind="AttributeReference", fields=value, children=())
                )
            for each in value.values():
                add(each)

    for node in root.nodes():
        add(list(node.fields.values()))
    return found


# ------------------------------------------------------------------------------------------ linear operators


def _columns_of_reading(number: int, relation: Node) -> dict[int, KeyColumn]:
    return {
        each.identity: KeyColumn(reading=number, column=str(each.fields["name"]), type=each.data_type)
        for each in relation.expressions("output")
        if each.data_type is not None
    }


def _of_one(node: Node, below: _Part) -> _Part:
    """Return the part of a linear operator with one child."""
    match node.kind:
        case "Project":
            return replace(below, columns=_projected(node, below.columns), output=_output(node))
        case "Filter":
            return _equated(node, below)
        case "Expand":
            return replace(below, columns={}, output=_output(node))
        case "Generate":
            return replace(below, output=_generated(node, below.output))
        case _:
            return below


def _projected(project: Node, below: Mapping[int, KeyColumn]) -> dict[int, KeyColumn]:
    return {
        item.identity: below[column.identity]
        for item in project.expressions("projectList")
        if (column := item.column()) is not None and column.identity in below
    }


def _equated(node: Node, part: _Part) -> _Part:
    """Return *part* with the equalities in the condition of an operator."""
    equalities = [equality for each in _conjuncts(node) for equality in _equality(each, part.columns)]
    return replace(part, equalities=(*part.equalities, *equalities))


def _conjuncts(node: Node) -> Iterator[Node]:
    for whole in node.expressions("condition"):
        yield from whole.conjuncts()


def _equality(condition: Node, columns: Mapping[int, KeyColumn]) -> Iterator[Equality]:
    """Yield the equality of columns of two readings that a condition is, if any."""
    if condition.kind not in _EQUALITIES:
        return
    sides = [each.column() for each in condition.children]
    match [columns.get(side.identity) for side in sides if side is not None]:
        case [KeyColumn() as left, KeyColumn() as right] if left.reading != right.reading:
            if are_comparable(left, right):
                yield Equality(left=left, right=right, null_safe=condition.kind == "EqualNullSafe")


# --------------------------------------------------------------------------------------------------- columns


def _output(node: Node) -> tuple[int, ...] | None:
    """Return the ids of the columns of an operator in order, or None if they are not known."""
    for named in ("output", "projectList", "aggregateExpressions"):
        if named in node.fields:
            return node.identities(named)
    below = [_output(child) for child in node.children]
    match node.kind:
        case "Join":
            return _joined(node, *below)
        case "Generate":
            return _generated(node, below[0])
        case "Window" if below[0] is not None:
            return (*below[0], *node.identities("windowExpressions"))
        # The columns of a UNION have the ids of its first branch.
        case "Filter" | "Union" | "GlobalLimit" | "LocalLimit":
            return below[0]
        case kind if kind in TRANSPARENT:
            return below[0]
        case _:
            return None


def _joined(
    node: Node, left: tuple[int, ...] | None, right: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    return None if left is None or right is None else joined_columns(node, left, right)


def _generated(node: Node, below: tuple[int, ...] | None) -> tuple[int, ...] | None:
    # JSON has no numbers of columns that the optimizer has removed, only an empty list for none.
    if below is None or node.fields.get("unrequiredChildIndex") != []:
        return None
    return (*below, *node.identities("generatorOutput"))
