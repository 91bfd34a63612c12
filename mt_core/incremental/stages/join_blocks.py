"""Join blocks: the readings below an aggregate that a change is joined with, and the columns that are equal.

The change of a state is a sum of *terms*, one for each changed reading: the aggregate over the changed rows
of this reading, joined with whole other readings. Of these only rows that can join matter, and equalities
between columns say which ones. A block has the readings of a term and its equalities. Terms with the same
readings share one.

Columns are followed from the relations upwards, as long as operators return them unchanged. An equality that
is not found here costs time and never rows, because the plan evaluates all conditions again. So computed
columns, types whose equal values differ in their bits, and operators without a rule are left out.

A UNION adds up the rows of its branches, so a change in one branch is not joined with the others: they are
empty in its term. If the changed reading is joined *above* a UNION of several branches with readings, they
all stay, no column of the UNION belongs to one reading, and the term has no block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from mt_core.incremental.plan import (
    TRANSPARENT,
    Node,
    join_type,
    joined_columns,
    reading_of,
    readings_below,
)

_INTEGERS = frozenset({"byte", "short", "integer", "long"})
# Types of which two values are equal if and only if their bits are: floats have NaN and -0.0.
_OTHER_TYPES = re.compile(r"string|date|timestamp|timestamp_ntz|boolean|decimal\((\d|1[0-8]),\d+\)")
_EQUALITIES = ("EqualTo", "EqualNullSafe")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class KeyColumn:
    """A column of a reading, with Spark's name of its type."""

    reading: int
    column: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyClass:
    """Columns of several readings that have the same value in each joined row.

    If the class is not `null_safe`, this value is never NULL.
    """

    columns: tuple[KeyColumn, ...]
    null_safe: bool

    def of(self, reading: int) -> KeyColumn | None:
        """Return the first column of a reading in the class, or None if it has none."""
        return next((each for each in self.columns if each.reading == reading), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinBlock:
    """The `readings` that are joined in the terms of some of them, `terms`, and the `keys` that join them."""

    readings: frozenset[int]
    terms: frozenset[int]
    keys: tuple[KeyClass, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Equality:
    """Columns of two readings that are equal in each joined row."""

    left: KeyColumn
    right: KeyColumn
    null_safe: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What is joined below an operator in one term.

    `columns` are those of its output that have the values of a column of a reading, by their ids.
    """

    readings: frozenset[int] = frozenset()
    equalities: tuple[Equality, ...] = ()
    columns: Mapping[int, KeyColumn] = field(default_factory=dict)


class _NoBlock(Exception):
    """The changed reading of a term is joined above a UNION of several branches."""


def join_blocks(aggregate: Node) -> tuple[JoinBlock, ...]:
    """Return the blocks of an aggregate. A reading below it that is in the terms of none has no block."""
    parts: dict[frozenset[int], _Part] = {}
    terms: dict[frozenset[int], set[int]] = {}
    (child,) = aggregate.children
    for reading in sorted(set(readings_below(child))):
        try:
            part = _part(child, reading)
        except _NoBlock:
            continue
        # Terms with the same readings have the same branches of all UNIONs, so the same equalities.
        parts.setdefault(part.readings, part)
        terms.setdefault(part.readings, set()).add(reading)
    return tuple(
        JoinBlock(readings=readings, terms=frozenset(terms[readings]), keys=key_classes(part.equalities))
        for readings, part in parts.items()
    )


def _part(node: Node, changed: int) -> _Part:
    """Return what is joined below an operator in the term of the reading *changed*."""
    if (number := reading_of(node)) is not None:
        return _Part(readings=frozenset({number}), columns=_columns_of_reading(number, node))
    if next(readings_below(node), None) is None:
        return _Part()
    if node.kind == "Union":
        return _union(node, changed)
    below = [_part(child, changed) for child in node.children]
    part = _Part(
        readings=frozenset[int]().union(*(each.readings for each in below)),
        equalities=tuple(equality for each in below for equality in each.equalities),
        columns={number: column for each in below for number, column in each.columns.items()},
    )
    match node.kind:
        case "Project":
            return replace(part, columns=_projected(node, part.columns))
        case "Filter":
            return _equated(node, part)
        case "Join" if join_type(node) in ("Inner", "Cross"):
            return _equated(node, part)
        case "Join" | "Generate":
            return part
        case kind if kind in TRANSPARENT:
            return part
        case _:
            return replace(part, columns={})


def _columns_of_reading(number: int, relation: Node) -> dict[int, KeyColumn]:
    return {
        each.identity: KeyColumn(reading=number, column=str(each.fields["name"]), type=each.data_type)
        for each in relation.expressions("output")
        if each.data_type is not None
    }


def _projected(project: Node, below: Mapping[int, KeyColumn]) -> dict[int, KeyColumn]:
    return {
        item.identity: below[column.identity]
        for item in project.expressions("projectList")
        if (column := item.column()) is not None and column.identity in below
    }


def _union(node: Node, changed: int) -> _Part:
    """Return the part of a UNION: that of the branch that reads *changed*. The others have no rows."""
    branch = next((child for child in node.children if changed in readings_below(child)), None)
    if branch is None:
        raise _NoBlock
    part = _part(branch, changed)
    ids, below = _output(node), _output(branch)
    if ids is None or below is None:
        return replace(part, columns={})
    pairs = zip(ids, below, strict=True)
    return replace(part, columns={own: part.columns[each] for own, each in pairs if each in part.columns})


def _output(node: Node) -> tuple[int, ...] | None:
    """Return the ids of the columns of an operator in order, or None if they are not known."""
    for named in ("output", "projectList", "aggregateExpressions"):
        if named in node.fields:
            return node.identities(named)
    below = [_output(child) for child in node.children]
    if not below or None in below:
        return None
    first, *others = [each for each in below if each is not None]
    match node.kind:
        case "Join":
            return joined_columns(node, first, *others)
        # The columns of a UNION have the ids of its first branch.
        case kind if kind in ("Filter", "Union", *TRANSPARENT):
            return first
        # JSON has no numbers of columns that the optimizer has removed, only an empty list for none.
        case "Generate" if node.fields.get("unrequiredChildIndex") == []:
            return (*first, *node.identities("generatorOutput"))
        case _:
            return None


def _equated(node: Node, part: _Part) -> _Part:
    """Return *part* with the equalities in the condition of an operator."""
    conjuncts = (each for whole in node.expressions("condition") for each in whole.conjuncts())
    equalities = [equality for each in conjuncts for equality in _equality(each, part.columns)]
    return replace(part, equalities=(*part.equalities, *equalities))


def _equality(condition: Node, columns: Mapping[int, KeyColumn]) -> Iterator[Equality]:
    """Yield the equality of columns of two readings that a condition is, if any."""
    if condition.kind not in _EQUALITIES:
        return
    sides = [each.column() for each in condition.children]
    match [columns.get(side.identity) for side in sides if side is not None]:
        case [KeyColumn() as left, KeyColumn() as right] if left.reading != right.reading:
            if are_comparable(left, right):
                yield Equality(left=left, right=right, null_safe=condition.kind == "EqualNullSafe")


def is_key(column: KeyColumn | None) -> bool:
    """Return whether values of a column are equal if and only if their bits are."""
    return column is not None and (column.type in _INTEGERS or bool(_OTHER_TYPES.fullmatch(column.type)))


def are_comparable(left: KeyColumn | None, right: KeyColumn | None) -> bool:
    """Return whether equal values of two columns are found by each other."""
    if left is None or right is None:
        return False
    if left.type in _INTEGERS:
        return right.type in _INTEGERS
    return left.type == right.type and _OTHER_TYPES.fullmatch(left.type) is not None


def key_classes(equalities: Iterable[Equality]) -> tuple[KeyClass, ...]:
    """Return the transitive closure of *equalities*."""
    classes: list[KeyClass] = []
    for each in equalities:
        # A NULL that one equality accepts is rejected by another of the same class.
        both = KeyClass(columns=(each.left, each.right), null_safe=each.null_safe)
        meeting = [other for other in classes if {*other.columns} & {*both.columns}]
        merged = KeyClass(
            columns=tuple(sorted({column for other in (*meeting, both) for column in other.columns})),
            null_safe=all(other.null_safe for other in (*meeting, both)),
        )
        classes = [other for other in classes if other not in meeting] + [merged]
    return tuple(sorted(classes, key=lambda each: each.columns))
