"""Join blocks: the readings that a change of one of them is joined with, and the columns that are equal.

The change of a linear part of a query is a sum of *terms*, one for each changed reading: the part computed
over the changed rows of this reading, joined with whole other readings. Of these only rows that can join
matter, and equalities between columns say which ones. Types whose equal values differ in their bits are left
out of these: floats have NaN and -0.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

_INTEGERS = frozenset({"byte", "short", "integer", "long"})
_OTHER_TYPES = re.compile(r"string|date|timestamp|timestamp_ntz|boolean|decimal\((\d|1[0-8]),\d+\)")


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
    """The `readings` that are joined in the term of each of them, and the `keys` that join them."""

    readings: frozenset[int]
    keys: tuple[KeyClass, ...]

    def compared(self, rows: Mapping[int, int]) -> int:
        """Return about how many combinations of *rows*, given by reading, a join of all readings compares.

        Rows of readings that keys connect find each other. Each of these parts is compared with all others.
        """
        parts = {number: frozenset([number]) for number in self.readings}
        for key in self.keys:
            connected = frozenset[int]().union(*(parts[column.reading] for column in key.columns))
            parts |= dict.fromkeys(connected, connected)
        return prod(max(rows[number] for number in part) for part in {*parts.values()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Equality:
    """Columns of two readings that are equal in each joined row."""

    left: KeyColumn
    right: KeyColumn
    null_safe: bool


def has_equal_bits(type_: str | None) -> bool:
    """Return whether values of one of Spark's types are equal if and only if their bits are."""
    return type_ is not None and (type_ in _INTEGERS or _OTHER_TYPES.fullmatch(type_) is not None)


def are_comparable(left: KeyColumn, right: KeyColumn) -> bool:
    """Return whether equal values of two columns find each other."""
    if left.type in _INTEGERS:
        return right.type in _INTEGERS
    return left.type == right.type and has_equal_bits(left.type)


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
