"""What a statement says of the values of a partition column: one, some of them, or a range."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRange:
    """The values between two bounds, compared as text; None: no bound on that side."""

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
"""A value, a list of values (None: NULL), or a range."""
