"""The blocks of a query: which of its operators are linear, and what computes the others.

`blocks_of` reads a plan from an operator downwards. Each operator extends the block of the operators below it
or, if it is not linear, ends their blocks and becomes a reading of the block above it:

- projections, filters, generators, inner joins, and joins with rows that never change extend a block;
- outer, semi, anti and existence joins, aggregates, windows and UNIONs are computed readings;
- a table that is read in several places, as by a view that is used twice, is a computed reading in each of
  them, since the rows and keys of each place differ;
- a LIMIT, an OFFSET, an aggregate or a window of all rows, and a full join without equal columns, is computed
  whole, so its readings must not change;
- any other operator is an obstacle. So an operator of a future Spark leads to fewer blocks and never to wrong
  rows.

Columns are followed from the relations upwards, as long as operators return them unchanged. Keys are equal
columns of two readings. One that is not found here costs time and never rows, because operators evaluate
their own conditions. So computed columns, and types whose equal values differ in their bits, are no keys.
They may still name what changes, where SQL compares them: as groups, partitions and equal columns.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mt_core.incremental.plan import (
    LEFT_ONLY,
    TRANSPARENT,
    Node,
    join_type,
    output_of,
    reading_of,
    readings_below,
)
from mt_core.incremental.stages.blocks import Block, Blocks, ComputedReading, Kind, Pair, Place, place_of
from mt_core.incremental.stages.join_blocks import (
    Equality,
    JoinBlock,
    KeyColumn,
    are_comparable,
    has_equal_bits,
    key_classes,
)
from mt_core.incremental.stages.reproducible import obstacle_of_values
from mt_core.incremental.stages.words import shortened, words_of_aggregate, words_of_key

_JOINS = {
    "LeftOuter": "a left join",
    "RightOuter": "a right join",
    "LeftSemi": "a semi join",
    "LeftAnti": "an anti join",
    "ExistenceJoin": "an existence join",
    "FullOuter": "a full join",
}
_EQUALITIES = ("EqualTo", "EqualNullSafe")
_NO_KEY = re.compile(r'"(map|variant|geometry|geography)[("]|collate')
_WHOLE = {"GlobalLimit": "a LIMIT", "LocalLimit": "a LIMIT", "Offset": "an OFFSET"}


def blocks_of(trees: Sequence[Node], place: Place, first_number: int) -> Blocks | str:
    """Return the block of the operator at *place* and the computed readings below it, or what is an obstacle.

    *trees* are the query and its scalar subqueries. Computed readings have the numbers from *first_number*.
    """
    tree, path = json.loads(place)
    node = trees[tree]
    for position in path:
        node = node.children[position]
    times = Counter(readings_below(node))
    blocks = _BlocksOfTree(
        trees=trees,
        tree=tree,
        next_number=first_number,
        attributes=_attributes(trees[tree]),
        repeated=frozenset(number for number in times if times[number] > 1),
    )
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


def never_changes(trees: Sequence[Node], tree: int) -> bool:
    """Return whether a scalar subquery always has the same value, and the subqueries in it as well."""
    root = trees[tree]
    below = subqueries_in([each.fields for each in root.nodes()])
    repeatable = all(each.fields["deterministic"] for each in root.nodes())
    return is_constant(root) and repeatable and all(never_changes(trees, each) for each in below)


class _Obstacle(Exception):
    """An operator that is neither linear nor a computed reading."""


def _check(node: Node) -> None:
    """Raise _Obstacle if the rows of an operator depend on more than the rows below it and on values."""
    if node.kind == "LateralJoin":
        # Its right side is an expression, in which readings are not found.
        raise _Obstacle("LATERAL")
    if not node.fields["deterministic"]:
        raise _Obstacle("an expression that is not deterministic")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The part of a block below an operator.

    `columns` are those of its output that have the values of a column of a reading, by their ids.
    """

    readings: tuple[int, ...] = ()
    equalities: tuple[Equality, ...] = ()
    columns: Mapping[int, KeyColumn] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Input:
    """The block of a child of an operator, with the ids of its columns."""

    block: Block
    ids: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class _BlocksOfTree:
    """The blocks of the operators of a *tree*.

    `attributes` are the columns that the tree reads, by id. `repeated` are the tables that the blocks read in
    several places.
    """

    trees: Sequence[Node]
    tree: int
    next_number: int
    attributes: Mapping[int, Node]
    repeated: frozenset[int]
    computed: dict[int, ComputedReading] = field(default_factory=dict)

    def at(self, node: Node, path: tuple[int, ...]) -> Blocks:
        """Return the block of an operator, with the computed readings below it."""
        blocks = Blocks(root=self._block(node, path), computed=self.computed)
        fixed = blocks.fixed()
        if blocks.tables() and blocks.tables() == fixed.keys():
            raise _Obstacle(next(iter(fixed.values())).words)
        return blocks

    def _block(self, node: Node, path: tuple[int, ...]) -> Block:
        part = self._part(node, path)
        readings = tuple(sorted(part.readings))
        return Block(
            place=place_of(self.tree, path),
            readings=readings,
            columns=tuple(map(part.columns.get, output_of(node) or ())),
            joins=JoinBlock(
                readings=frozenset(readings),
                keys=key_classes(each for each in part.equalities if are_comparable(each.left, each.right)),
            ),
            equal=key_classes(part.equalities),
        )

    # ------------------------------------------------------------------------------------- linear operators

    def _part(self, node: Node, path: tuple[int, ...]) -> _Part:
        """Return the part of a block that an operator and those below it form."""
        if (number := reading_of(node)) is not None:
            return self._table(number, node, place_of(self.tree, path))
        if is_constant(node):
            for each in node.nodes():
                _check(each)
            return _Part()
        _check(node)
        if node.kind == "Join":
            return self._of_join(node, path)
        if node.kind in ("Project", "Filter", "Expand", "Generate", *TRANSPARENT):
            return _of_one(node, self._part(node.children[0], (*path, 0)))
        return self._computed(node, path)

    def _table(self, number: int, node: Node, place: Place) -> _Part:
        columns = _columns_of_reading(number, node)
        if number not in self.repeated:
            return _Part(readings=(number,), columns=columns)
        output = output_of(node) or ()
        of_table = tuple(map(columns.get, output))
        joins = JoinBlock(readings=frozenset({number}), keys=())
        reading = ComputedReading(
            number=self.next_number,
            place=place,
            kind=Kind.UNION,
            inputs=(Block(place=place, readings=(number,), columns=of_table, joins=joins),),
            passed=tuple((0, position) for position in range(len(output))),
            words="a table",
        )
        return self._of_computed(reading, output)

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
        )
        return _equated(node, part) if kind in ("Inner", "Cross") else part

    # ------------------------------------------------------------------------------------ computed readings

    def _computed(self, node: Node, path: tuple[int, ...]) -> _Part:
        """Return the part that consists of a computed reading."""
        first, place = self.next_number, place_of(self.tree, path)
        inputs = [self._input(child, (*path, number)) for number, child in enumerate(node.children)]
        reading = self._reading(node, place, inputs)
        computed = node.nodes() if reading.kind is Kind.FIXED else (node,)
        values = (obstacle_of_values(each) for each in computed if not is_constant(each))
        reading = replace(reading, unstable=next(filter(None, values), ""))
        output = output_of(node) or ()
        if reading.kind is Kind.FIXED:
            reading = replace(reading, number=first, inputs=(_whole(node, place, len(output)),))
            self.computed = {number: each for number, each in self.computed.items() if number < first}
        return self._of_computed(reading, output)

    def _of_computed(self, reading: ComputedReading, output: Sequence[int]) -> _Part:
        self.next_number = reading.number + 1
        self.computed[reading.number] = reading
        columns = {
            each: KeyColumn(reading=reading.number, column=f"c{position}", type=type_)
            for position, each in enumerate(output)
            if (type_ := self._type_of(each)) is not None
        }
        return _Part(readings=(reading.number,), columns=columns)

    def _type_of(self, column: int) -> str | None:
        """Return the type of a column, or None for nested ones. It is empty if no expression reads it."""
        return self.attributes[column].data_type if column in self.attributes else ""

    def _input(self, node: Node, path: tuple[int, ...]) -> _Input:
        block = self._block(node, path)
        if (ids := output_of(node)) is None:
            raise _Obstacle(f"a {node.kind} whose columns are not known")
        return _Input(block=block, ids=ids)

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
            case kind if kind in _WHOLE:
                return self._fixed(place, _WHOLE[kind])
            case _:
                raise _Obstacle(node.kind)

    def _fixed(self, place: Place, words: str) -> ComputedReading:
        return ComputedReading(number=self.next_number, place=place, kind=Kind.FIXED, inputs=(), words=words)

    def _join(self, node: Node, place: Place, inputs: Sequence[_Input]) -> ComputedReading:
        if (kind := join_type(node)) not in _JOINS:
            raise _Obstacle(f"a {kind} join")
        # The first input is the preserved side, and the output has the columns of the left side first.
        order = (1, 0) if kind == "RightOuter" else (0, 1)
        sides = inputs[order[0]], inputs[order[1]]
        equal = tuple(dict.fromkeys(_pairs(node, *sides)))
        pairs = tuple(each for each in equal if self._find(each, *sides))
        words = f"{_JOINS[kind]} {self._by([sides[0].ids[each.left] for each in pairs])}"
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
            equal=equal,
            passed=(*passed, *((None,) if kind == "ExistenceJoin" else ())),
            words=words,
        )

    def _find(self, pair: Pair, left: _Input, right: _Input) -> bool:
        """Return whether rows of both sides of a join can be found by a pair of equal columns."""
        one, other = self._key(left, pair.left), self._key(right, pair.right)
        return one is not None and other is not None and are_comparable(one, other)

    def _groups(self, node: Node, place: Place, child: _Input) -> ComputedReading:
        named = _named(child, node.expressions("groupingExpressions"))
        words = words_of_aggregate(node)
        if not named:
            return self._fixed(place, words)
        by_id = {child.ids[key]: (0, key) for key in named}
        items = [item.column() for item in node.expressions("aggregateExpressions")]
        return ComputedReading(
            number=self.next_number,
            place=place,
            kind=Kind.GROUPS,
            inputs=(child.block,),
            keys=self._keys(child, named),
            named=named,
            passed=tuple(None if item is None else by_id.get(item.identity) for item in items),
            words=words,
        )

    def _window(self, node: Node, place: Place, child: _Input) -> ComputedReading:
        partition = node.expressions("partitionSpec")
        names = list(map(words_of_key, partition))
        words = f"a window by {shortened(names)}" if names else "a window over all rows"
        if not (named := _named(child, partition)):
            return self._fixed(place, words)
        return ComputedReading(
            number=self.next_number,
            place=place,
            kind=Kind.WINDOW,
            inputs=(child.block,),
            keys=self._keys(child, named),
            named=named,
            passed=(
                *((0, each) for each in range(len(child.ids))),
                *(None for _ in node.expressions("windowExpressions")),
            ),
            words=words,
        )

    def _keys(self, child: _Input, positions: Iterable[int]) -> tuple[int, ...]:
        """Return the positions of columns by which rows can be found."""
        return tuple(each for each in positions if self._key(child, each) is not None)

    def _key(self, given: _Input, position: int) -> KeyColumn | None:
        """Return a column of a reading by which rows of a block can be found, or None."""
        column = given.block.columns[position]
        if column is None or not has_equal_bits(column.type):
            return None
        blocks = Blocks(root=given.block, computed=self.computed)
        return column if blocks.finds(given.block, position) else None

    def _by(self, ids: Sequence[int]) -> str:
        names = [str(self.attributes[each].fields["name"]) for each in ids]
        return f"by {shortened(names)}" if names else "without equal columns"


def _named(child: _Input, expressions: Iterable[Node]) -> tuple[int, ...]:
    """Return the positions of the columns that form groups or partitions and can be compared."""
    columns = [each for each in expressions if each.kind == "AttributeReference" and _is_key(each)]
    ids = dict.fromkeys(each.identity for each in columns)
    return tuple(child.ids.index(each) for each in ids if each in child.ids)


def _is_key(column: Node) -> bool:
    """Return whether values of a column that are equal in a query are equal in a stored table as well."""
    return _NO_KEY.search(json.dumps(column.fields["dataType"])) is None


def _pairs(node: Node, left: _Input, right: _Input) -> Iterator[Pair]:
    """Yield the pairs of equal columns of both sides of a join."""
    for condition in _conjuncts(node):
        if condition.kind not in _EQUALITIES:
            continue
        for one, other in (condition.children, condition.children[::-1]):
            a, b = one.column(), other.column()
            if (
                a is not None
                and b is not None
                and a.identity in left.ids
                and b.identity in right.ids
                and _is_key(a)
            ):
                yield Pair(
                    left=left.ids.index(a.identity),
                    right=right.ids.index(b.identity),
                    null_safe=condition.kind == "EqualNullSafe",
                )


def _whole(node: Node, place: Place, columns: int) -> Block:
    """Return the only input of an operator that is computed whole: itself, over all its tables."""
    readings = tuple(sorted(set(readings_below(node))))
    joins = JoinBlock(readings=frozenset(readings), keys=())
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
            return replace(below, columns=_projected(node, below.columns))
        case "Filter":
            return _equated(node, below)
        case "Expand":
            return replace(below, columns={})
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
    match [columns.get(side.identity) for side in sides if side is not None and _is_key(side)]:
        case [KeyColumn() as left, KeyColumn() as right] if left.reading != right.reading:
            yield Equality(left=left, right=right, null_safe=condition.kind == "EqualNullSafe")
