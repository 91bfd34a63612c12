"""Random trees of operators over bags of rows in Python, with their blocks, before and after a change.

What an operator returns is written down here, in a few lines each. A test compares the change that the rule
of computed readings finds with the difference of two evaluations.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random

from mt_core.incremental.plan import read_plan
from mt_core.incremental.stages.blocks import Blocks, Pair, Place
from mt_core.incremental.stages.query_blocks import blocks_of
from tests.support.blocks import FIRST_NUMBER
from tests.support.plan_json import (
    Nodes,
    aggregate,
    alias,
    call,
    column,
    function,
    join,
    node,
    operator,
    project,
    where,
)

Row = tuple[int | None, ...]
Bag = Counter[Row]
WIDTHS = {"s": 3, "t": 2, "u": 3}
"""The sources, with their numbers of columns."""
TYPES = {"s2": "double", "t1": "long"}
"""The types of columns that are no integers."""
JOINS = {
    "inner": "Inner", "left": "LeftOuter", "right": "RightOuter", "full": "FullOuter",
    "semi": "LeftSemi", "anti": "LeftAnti", "exists": "ExistenceJoin",
}  # fmt: skip
Function = Callable[[Sequence[Row]], int | None]
"""A function of all rows of a group or a partition, the current row of a window first."""


class Unstable:
    """A function that is not reproducible: it returns another value at each call, or 9 at rest."""

    def __init__(self) -> None:
        self.is_at_rest = True
        self._calls = count(10)

    def __call__(self, rows: Sequence[Row]) -> int:
        return 9 if self.is_at_rest else next(self._calls)


UNSTABLE = Unstable()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Operator:
    """An operator, a reading of the `source` with a `number`, or a part of a tree of these.

    `pairs` are the equal columns of a join or filter, by position in the first child and in the second (in
    the only child of a filter). `condition` is a further condition on the joined row. `items` are positions
    of the child, or functions of its row. `keys` are positions of the child. `rows` are constants.
    """

    kind: str
    width: int
    children: tuple[Operator, ...] = ()
    source: str = ""
    number: int = -1
    pairs: tuple[Pair, ...] = ()
    condition: Callable[[Row], bool] = lambda row: True
    items: tuple[int | Callable[[Row], int | None], ...] = ()
    keys: tuple[int, ...] = ()
    functions: tuple[Function, ...] = ()
    rows: tuple[Row, ...] = ()

    def over(self, inputs: Sequence[Bag]) -> Bag:
        """Return the output over rows of the children."""
        match self.kind:
            case "values":
                given = [(row, 1) for row in self.rows]
            case "project":
                given = [(tuple(_value(each, row) for each in self.items), n) for row, n in inputs[0].items()]
            case "filter":
                given = [(row, n) for row, n in inputs[0].items() if self._holds(row, row, row)]
            case "groups":
                given = list(self._groups(inputs[0]))
            case "window":
                given = list(self._windows(inputs[0]))
            case "union":
                given = [item for each in inputs for item in each.items()]
            case "first":
                rows = sorted(
                    inputs[0].elements(), key=lambda row: [(each is None, each or 0) for each in row]
                )
                given = [(row, 1) for row in rows[:3]]
            case _:
                given = list(self._joined(*inputs))
        return total(given)

    def _holds(self, left: Row, right: Row, both: Row) -> bool:
        return all(equal(left[each.left], right[each.right], each.null_safe) for each in self.pairs) and (
            self.condition(both)
        )

    def _joined(self, left: Bag, right: Bag) -> Iterator[tuple[Row, int]]:
        if self.kind == "right":
            # The preserved side is the second child, and its columns are the last ones.
            width = self.width - self.children[1].width
            for row, times in right.items():
                found = [(each, n) for each, n in left.items() if self._holds(row, each, each + row)]
                yield from ((each + row, n * times) for each, n in found or [((None,) * width, 1)])
            return
        seen = set[Row]()
        for row, times in left.items():
            found = [(each, n) for each, n in right.items() if self._holds(row, each, row + each)]
            seen.update(each for each, _ in found)
            match self.kind:
                case "semi" | "anti":
                    if bool(found) == (self.kind == "semi"):
                        yield row, times
                case "exists":
                    yield (*row, int(bool(found))), times
                case _:
                    yield from ((row + each, times * n) for each, n in found)
                    if not found and self.kind != "inner":
                        yield row + (None,) * self.children[1].width, times
        if self.kind == "full":
            nothing = (None,) * self.children[0].width
            yield from ((nothing + row, n) for row, n in right.items() if row not in seen)

    def _by_key(self, rows: Bag) -> dict[Row, list[Row]]:
        groups = defaultdict[Row, list[Row]](list)
        for row in rows.elements():
            groups[tuple(row[each] for each in self.keys)].append(row)
        return groups

    def _groups(self, rows: Bag) -> Iterator[tuple[Row, int]]:
        groups = self._by_key(rows)
        for key, members in groups.items() if self.keys else [((), groups.get((), []))]:
            yield (*key, *(each(members) for each in self.functions)), 1

    def _windows(self, rows: Bag) -> Iterator[tuple[Row, int]]:
        for members in self._by_key(rows).values():
            for row in members:
                yield (*row, *(each([row, *members]) for each in self.functions)), 1


def _value(item: int | Callable[[Row], int | None], row: Row) -> int | None:
    return row[item] if isinstance(item, int) else item(row)


def equal(one: int | None, other: int | None, null_safe: bool) -> bool:
    return one == other and (one is not None or null_safe)


def total(items: Sequence[tuple[Row, int]]) -> Bag:
    """Return the rows with the sums of their counts, without those whose sum is 0."""
    bag = Bag()
    for row, times in items:
        bag[row] += times
    return Counter({row: times for row, times in bag.items() if times})


def difference(one: Bag, other: Bag) -> Bag:
    return total([*one.items(), *((row, -times) for row, times in other.items())])


def evaluated(operator: Operator, sources: Mapping[str, Bag]) -> Bag:
    """Return the output of a tree over all rows of the sources."""
    if operator.kind == "reading":
        return sources[operator.source]
    return operator.over([evaluated(each, sources) for each in operator.children])


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomTree:
    """A tree with its blocks, and the rows of its sources before and after a change.

    `operators` are all operators by place. `sources` are those of its readings, by number.
    """

    root: Operator
    blocks: Blocks
    operators: Mapping[Place, Operator]
    sources: Mapping[int, str]
    old: Mapping[str, Bag]
    new: Mapping[str, Bag]

    @classmethod
    def of(cls, random: Random, depth: int | None = None, *, unstable: float = 0) -> RandomTree:
        """Return a tree. Of some branch, a share of groups and windows may be *unstable*."""
        blocks: Blocks | str = ""
        while isinstance(blocks, str):
            # Some trees consist of a single operator that is computed whole.
            trees, depths = _Trees(random), range(1, 5) if depth is None else (depth,)
            root = trees.tree(random.choice(depths))
            if unstable:
                trees.unstable = unstable
                root = _united(root, trees.tree(random.choice(depths)))
            plan = _Plan(random)
            nodes, _ = plan.of(root)
            blocks = blocks_of([read_plan(nodes)], "[0,[]]", FIRST_NUMBER)
        old = {name: _rows(random, width, (0, 2, 5, 9, 14)) for name, width in WIDTHS.items()}
        new = {name: _after_change(random, bag, WIDTHS[name]) for name, bag in old.items()}
        return cls(root=root, blocks=blocks, operators=plan.operators, sources=plan.sources, old=old, new=new)

    @property
    def change(self) -> Bag:
        """What changes, by evaluating the whole tree before and after."""
        return difference(evaluated(self.root, self.new), evaluated(self.root, self.old))


def _rows(random: Random, width: int, sizes: Sequence[int]) -> Bag:
    return Counter(
        tuple(random.choice((None, 0, 1, 2, 3)) for _ in range(width)) for _ in range(random.choice(sizes))
    )


def _after_change(random: Random, bag: Bag, width: int) -> Bag:
    if random.random() < 0.4:
        return bag
    removed = {row: random.randint(1, times) for row, times in bag.items() if random.random() < 0.3}
    return (bag - Counter(removed)) + _rows(random, width, (0, 1, 2, 3))


# -------------------------------------------------------------------------------------------------- plans


@dataclass(slots=True)
class _Plan:
    """Writes a tree as a plan, in which its operators have the same places."""

    random: Random
    operators: dict[Place, Operator] = field(default_factory=dict)
    sources: dict[int, str] = field(default_factory=dict)
    _ids: Iterator[int] = field(default_factory=lambda: count(1))

    def of(self, given: Operator, path: tuple[int, ...] = ()) -> tuple[Nodes, list[Nodes]]:
        """Return the nodes of an operator and those below it, with its columns."""
        self.operators[json.dumps([0, path], separators=(",", ":"))] = given
        below = [self.of(child, (*path, number)) for number, child in enumerate(given.children)]
        children, inputs = [nodes for nodes, _ in below], [columns for _, columns in below]
        match given.kind:
            case "reading" | "values":
                return self._leaf(given)
            case "project":
                return self._project(given, children[0], inputs[0])
            case "filter":
                condition = self._condition(given, inputs[0], inputs[0], inputs[0])
                return where(condition, children[0]), inputs[0]
            case "groups":
                items = [inputs[0][key] for key in given.keys]
                items += [self._computed(call("Max", inputs[0][0])) for _ in given.functions]
                keys = [inputs[0][key] for key in given.keys]
                functions = [function("First")] if UNSTABLE in given.functions else []
                return aggregate(keys, items, children[0], functions=functions), self._columns_of(items)
            case "window":
                items = [self._computed(_over(each)) for each in given.functions]
                keys = [inputs[0][key] for key in given.keys]
                window = operator("Window", children[0], windowExpressions=items, partitionSpec=keys)
                return window, [*inputs[0], *self._columns_of(items)]
            case "union":
                return operator("Union", *children), inputs[0]
            case "first":
                return operator("GlobalLimit", children[0]), inputs[0]
            case _:
                return self._join(given, children, inputs)

    def _leaf(self, given: Operator) -> tuple[Nodes, list[Nodes]]:
        names = [f"{given.source}{each}" for each in range(given.width)]
        output = [column(next(self._ids), name, TYPES.get(name, "integer")) for name in names]
        if given.kind == "values":
            return operator("LocalRelation", output=output), output
        self.sources[given.number] = given.source
        return operator("DataSourceV2Relation", output=output, reading=given.number), output

    def _project(self, given: Operator, child: Nodes, columns: list[Nodes]) -> tuple[Nodes, list[Nodes]]:
        items = list[Nodes]()
        for each in given.items:
            if not isinstance(each, int):
                items.append(self._computed(node("Remainder", columns[0])))
            else:
                items.append(columns[each] if self.random.random() < 0.5 else self._computed(columns[each]))
        return project(items, child), self._columns_of(items)

    def _join(
        self, given: Operator, children: list[Nodes], inputs: list[list[Nodes]]
    ) -> tuple[Nodes, list[Nodes]]:
        both = [*inputs[0], *inputs[1]]
        left, right = reversed(inputs) if given.kind == "right" else inputs
        condition = self._condition(given, left, right, both)
        flag = next(self._ids)
        columns = {"semi": inputs[0], "anti": inputs[0], "exists": [*inputs[0], column(flag, "exists")]}
        tree = join(JOINS[given.kind], children[0], children[1], condition, exists=flag)
        return tree, columns.get(given.kind, both)

    def _condition(self, given: Operator, left: list[Nodes], right: list[Nodes], both: list[Nodes]) -> Nodes:
        # What it compares besides the pairs does not matter for a plan.
        condition = node("LessThan", both[0], both[-1])
        for each in given.pairs:
            sides = [left[each.left], right[each.right]]
            self.random.shuffle(sides)
            equality = node("EqualNullSafe" if each.null_safe else "EqualTo", *sides)
            condition = node("And", condition, equality)
        return condition

    def _computed(self, value: Nodes) -> Nodes:
        return alias(next(self._ids), value)

    def _columns_of(self, items: Sequence[Nodes]) -> list[Nodes]:
        """Return the columns of a list of expressions, by which other operators read them."""
        columns = list[Nodes]()
        for first, *below in items:
            type_ = (
                below[0]["dataType"] if below and len(below) == 1 and "dataType" in below[0] else "integer"
            )
            is_alias = first["class"] == "Alias"
            columns.append(column(first["exprId"]["id"], "x", type_) if is_alias else [first])
        return columns


# -------------------------------------------------------------------------------------------------- trees


@dataclass(slots=True)
class _Trees:
    random: Random
    unstable: float = 0
    _numbers: Iterator[int] = field(default_factory=count)
    _numbers_of: dict[str, int] = field(default_factory=dict)

    def reading(self) -> Operator:
        source = self.random.choice(sorted(WIDTHS))
        if self.random.random() < 0.05:
            rows = tuple(_rows(self.random, WIDTHS[source], (1, 4)))
            return Operator(kind="values", width=WIDTHS[source], rows=rows)
        number = self._numbers_of.get(source)
        if number is None or self.random.random() < 0.7:
            self._numbers_of[source] = number = next(self._numbers)
        # Otherwise a reading is in several places, as that of a view which is used twice.
        return Operator(kind="reading", width=WIDTHS[source], source=source, number=number)

    def tree(self, depth: int) -> Operator:
        random = self.random
        if depth and random.random() < 0.3:
            return self._star(depth)
        if depth == 0 or random.random() < 0.12:
            return self.reading()
        joins = ("inner", "inner", "left", "left", "right", "full", "semi", "anti", "exists")
        others = ("project", "filter", "groups", "groups", "window", "window", "union", "first")
        kind = random.choice((*joins, *others))
        child = self.tree(depth - 1)
        match kind:
            case "project":
                items = random.sample(range(child.width), random.randint(1, child.width))
                return _projected(child, [each if random.random() < 0.75 else _sum(each) for each in items])
            case "filter":
                return self._filter(child)
            case "groups":
                return self._grouped(child)
            case "window":
                return self._window(child)
            case "first":
                return Operator(kind=kind, width=child.width, children=(child,))
            case "union":
                return _united(child, self.tree(random.randint(0, depth - 1)))
            case _:
                return self._join(kind, child, self.tree(random.randint(0, depth - 1)))

    def _star(self, depth: int) -> Operator:
        """Return inner joins of several readings, of which some are computed."""
        tree = self._keyed(depth)
        for _ in range(self.random.randint(1, 3)):
            other = self._keyed(depth)
            if self.random.random() < 0.4:
                column, most = self.random.randrange(other.width), self.random.randint(1, 2)
                condition = _at_most(column, most)
                other = Operator(kind="filter", width=other.width, children=(other,), condition=condition)
            pair = Pair(
                left=self.random.randrange(min(3, tree.width)),
                right=0,
                null_safe=self.random.random() < 0.15,
            )
            tree = Operator(
                kind="inner", width=tree.width + other.width, children=(tree, other), pairs=(pair,)
            )
        return tree

    def _keyed(self, depth: int) -> Operator:
        """Return a reading, or a computed one whose key is its first column."""
        random = self.random
        kind = random.choice(("reading", "reading", "groups", "window", "semi", "left", "tree"))
        first = self.reading()
        match kind:
            case "reading":
                return first
            case "tree" if depth > 1:
                return self.tree(depth - 1)
            case "groups":
                return Operator(
                    kind=kind, width=2, children=(first,), keys=(0,), functions=(_functions(1)[0],)
                )
            case "window":
                return Operator(
                    kind=kind, width=first.width + 1, children=(first,), keys=(0,), functions=(len,)
                )
        kind = "anti" if kind == "tree" else kind
        other = self.reading()
        width = first.width + (other.width if kind == "left" else 0)
        pair = Pair(left=0, right=0, null_safe=random.random() < 0.15)
        return Operator(kind=kind, width=width, children=(first, other), pairs=(pair,))

    def _filter(self, child: Operator) -> Operator:
        random, column, most = self.random, self.random.randrange(child.width), self.random.randint(0, 3)
        condition = random.choice((_at_most(column, most), _not(column, most)))
        pairs = tuple(
            Pair(
                left=random.randrange(child.width),
                right=random.randrange(child.width),
                null_safe=random.random() < 0.3,
            )
            for _ in range(random.random() < 0.25)
        )
        return Operator(kind="filter", width=child.width, children=(child,), pairs=pairs, condition=condition)

    def _join(self, kind: str, one: Operator, other: Operator) -> Operator:
        random = self.random
        preserved, partner = (other, one) if kind == "right" else (one, other)
        pairs = tuple(
            Pair(
                left=random.randrange(preserved.width),
                right=random.randrange(partner.width),
                null_safe=random.random() < 0.2,
            )
            for _ in range(random.choice((0, 1, 1, 1, 1, 2)))
        )
        condition: Callable[[Row], bool] = lambda row: True  # noqa: E731
        if random.random() < 0.25:
            left, right = random.randrange(one.width), one.width + random.randrange(other.width)
            condition = _differ(left, right)
        width = one.width + {"semi": 0, "anti": 0, "exists": 1}.get(kind, other.width)
        return Operator(kind=kind, width=width, children=(one, other), pairs=pairs, condition=condition)

    def _grouped(self, child: Operator) -> Operator:
        random = self.random
        keys = random.sample(range(child.width), min(child.width, random.choice((1, 1, 1, 2))))
        functions = _functions(random.randrange(child.width))
        chosen = random.sample(functions, random.randint(0, 2))
        if random.random() < self.unstable:
            chosen.append(UNSTABLE)
        grouped = Operator(
            kind="groups",
            width=len(keys) + len(chosen),
            children=(child,),
            keys=tuple(keys),
            functions=tuple(chosen),
        )
        if not chosen or random.random() > 0.4:
            return grouped
        having = _not(len(keys), random.randint(0, 1))
        return Operator(kind="filter", width=grouped.width, children=(grouped,), condition=having)

    def _window(self, child: Operator) -> Operator:
        random = self.random
        keys = tuple(random.sample(range(child.width), 1))
        column = random.randrange(child.width)
        function = random.choice((len, _functions(column)[0], _rank(column)))
        if random.random() < self.unstable:
            function = UNSTABLE
        window = Operator(
            kind="window", width=child.width + 1, children=(child,), keys=keys, functions=(function,)
        )
        if random.random() > 0.4:
            return window
        condition = _at_most(child.width, 2)
        return Operator(kind="filter", width=window.width, children=(window,), condition=condition)


def _united(*branches: Operator) -> Operator:
    width = min(each.width for each in branches)
    projected = tuple(_projected(each, range(width)) for each in branches)
    return Operator(kind="union", width=width, children=projected)


def _over(function: Function) -> Nodes:
    """Return a function over a window, as a plan has it."""
    kind = "RowNumber" if function is UNSTABLE else "Rank"
    return node("WindowExpression", node(kind), node("WindowSpecDefinition"))


def _projected(child: Operator, items: Sequence[int | Callable[[Row], int | None]]) -> Operator:
    return Operator(kind="project", width=len(items), children=(child,), items=tuple(items))


def _sum(column: int) -> Callable[[Row], int | None]:
    return lambda row: None if (value := row[column]) is None else (value + 1) % 3


def _at_most(column: int, most: int) -> Callable[[Row], bool]:
    return lambda row: (value := row[column]) is not None and value <= most


def _not(column: int, other: int) -> Callable[[Row], bool]:
    return lambda row: row[column] != other


def _differ(left: int, right: int) -> Callable[[Row], bool]:
    return lambda row: row[left] is not None and row[right] is not None and row[left] != row[right]


def _functions(column: int) -> tuple[Function, ...]:
    def values(rows: Sequence[Row]) -> list[int]:
        return sorted(value for row in rows if (value := row[column]) is not None)

    def middle(rows: Sequence[Row]) -> int | None:
        found = values(rows)
        return found[len(found) // 2] if found else None

    return (
        lambda rows: max(values(rows), default=None),
        lambda rows: len({*values(rows)}),
        len,
        middle,
        lambda rows: sum(found) if (found := values(rows)) else None,
    )


def _rank(column: int) -> Function:
    """Return the rank of the first row among the others, NULL first."""

    def order(row: Row) -> int:
        return -1 if (value := row[column]) is None else value

    return lambda rows: 1 + sum(order(each) < order(rows[0]) for each in rows[1:])
