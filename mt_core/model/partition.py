"""Partitions: values in statements, partition specs, and the partitions that a run covers.

Values are strings, as in Flink, or None (NULL).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRange:
    """The values between two bounds, compared as text; None means that there is no bound."""

    lower: str | None = None
    lower_included: bool = True
    upper: str | None = None
    upper_included: bool = True

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, str):
            return False
        above = self.lower is None or value > self.lower or (self.lower_included and value == self.lower)
        below = self.upper is None or value < self.upper or (self.upper_included and value == self.upper)
        return above and below


PartitionValues = str | tuple[str | None, ...] | ValueRange
"""The condition on a partition column in a statement: a value, a list of values (None: NULL), or a range."""


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """Values of some partition columns; a partial spec denotes all partitions with these values."""

    items: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, values: Mapping[str, str | None]) -> PartitionSpec:
        return cls(tuple(sorted(values.items(), key=lambda item: item[0])))

    def __lt__(self, other: PartitionSpec) -> bool:
        ours, theirs = (
            [(key, value is not None, value or "") for key, value in spec.items] for spec in (self, other)
        )
        return ours < theirs

    def __str__(self) -> str:
        return "/".join(f"{key} IS NULL" if value is None else f"{key}={value}" for key, value in self.items)


@dataclass(frozen=True, slots=True)
class Scope:
    """A set of partition specs, or the whole table if `specs` is None."""

    specs: frozenset[PartitionSpec] | None = None

    @classmethod
    def of(cls, specs: Iterable[PartitionSpec]) -> Scope:
        return cls(frozenset(specs))

    @property
    def whole(self) -> bool:
        return self.specs is None

    def __str__(self) -> str:
        return "whole table" if self.specs is None else ", ".join(str(spec) for spec in sorted(self.specs))

    def union(self, other: Scope) -> Scope:
        """Return the scope of all partitions in either scope."""
        if self.specs is None or other.specs is None:
            return WHOLE
        return Scope(self.specs | other.specs)

    def covers(self, spec: PartitionSpec) -> bool:
        """Return whether every partition that *spec* denotes is in the scope."""
        return self.specs is None or any(set(own.items) <= set(spec.items) for own in self.specs)

    def overlaps(self, spec: PartitionSpec) -> bool:
        """Return whether the scope can contain a partition that *spec* denotes."""
        values = dict(spec.items)
        return self.specs is None or any(
            all(values.get(key, value) == value for key, value in own.items) for own in self.specs
        )

    def to_json(self) -> list[dict[str, str | None]] | None:
        """Return None for the whole table, or else a list of {column: value}."""
        return None if self.specs is None else [dict(spec.items) for spec in sorted(self.specs)]

    @classmethod
    def from_json(cls, body: Any) -> Scope:
        return WHOLE if body is None else cls.of(PartitionSpec.of(spec) for spec in body)


WHOLE, NOTHING = Scope(), Scope(frozenset())

MOST_BESIDES = 1000
"""The maximum number of refreshed partitions listed as exceptions; older ones are in doubt again."""
_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtedPartitions:
    """Partitions whose rows may differ from the query: those in `scope` except those in `besides`."""

    scope: Scope
    besides: Scope = NOTHING
    reason: str = ""

    def __bool__(self) -> bool:
        return self.scope != NOTHING

    def __str__(self) -> str:
        scope = (
            "every partition" if self.scope.specs is None else named(sorted(self.scope.specs, reverse=True))
        )
        others = sorted(self.besides.specs or (), reverse=True)
        return f"{scope} but {named(others)}" if others else scope

    def covers(self, spec: PartitionSpec) -> bool:
        """Return whether the partitions that *spec* denotes are in doubt."""
        return self.scope.covers(spec) and not self.besides.covers(spec)

    def without(self, refreshed: Scope) -> DoubtedPartitions:
        """Return the partitions that are still in doubt after a refresh of the scope *refreshed*."""
        if refreshed.specs is None:
            return NOT_DOUBTED
        specs = self.scope.specs
        still_doubted = (
            self.scope if specs is None else Scope.of(spec for spec in specs if not refreshed.covers(spec))
        )
        exceptions = {
            spec
            for spec in refreshed.specs | (self.besides.specs or frozenset())
            if still_doubted.overlaps(spec)
        }
        return replace(
            self, scope=still_doubted, besides=Scope.of(sorted(exceptions, reverse=True)[:MOST_BESIDES])
        )

    def to_json(self) -> dict[str, Any]:
        """Return the reason and both scopes, in the JSON form of `Scope`."""
        return {"scope": self.scope.to_json(), "besides": self.besides.to_json(), "reason": self.reason}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> DoubtedPartitions:
        scopes = {key: Scope.from_json(body[key]) for key in ("scope", "besides")}
        return cls(**scopes, reason=str(body["reason"]))


NOT_DOUBTED = DoubtedPartitions(scope=NOTHING)


def named(specs: Sequence[PartitionSpec]) -> str:
    """Return the first 10 of *specs* as text, and the number of the remaining ones."""
    more = len(specs) - _NAMED
    return ", ".join(map(str, specs[:_NAMED])) + (f" and {more} more" if more > 0 else "")
