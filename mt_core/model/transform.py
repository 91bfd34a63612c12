"""Transforms of Iceberg's: functions of a column by whose values the files of a table are laid out,
and nothing else of it goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mt_core.base.identifiers import display_name, quote


class TransformKind(StrEnum):
    """Which function of a column a transform is."""

    YEARS = "years"
    MONTHS = "months"
    DAYS = "days"
    HOURS = "hours"
    BUCKET = "bucket"
    TRUNCATE = "truncate"

    @property
    def has_width(self) -> bool:
        """Whether it has a number besides its column."""
        return self in (TransformKind.BUCKET, TransformKind.TRUNCATE)

    @property
    def singular(self) -> str:
        """The name that Iceberg's own classes have for it."""
        return self.removesuffix("s")


SPELLINGS: Mapping[str, TransformKind] = {
    **{name.upper(): kind for kind in TransformKind for name in (kind, kind.singular)},
    "DATE": TransformKind.DAYS,
    "DATE_HOUR": TransformKind.HOURS,
}
"""The names that Iceberg gives each in Spark's SQL, in capitals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """A transform of a column; `width` is the number of buckets, or the width
    that values are truncated to.
    """

    kind: TransformKind
    column: str
    width: int | None = None

    def __str__(self) -> str:
        return self._written(display_name((self.column,)))

    @property
    def sql(self) -> str:
        """The transform as PARTITIONED BY has it."""
        return self._written(quote(self.column))

    @property
    def field(self) -> str:
        """The name that Iceberg gives the values."""
        return f"{self.column}_{'trunc' if self.kind is TransformKind.TRUNCATE else self.kind.singular}"

    def _written(self, column: str) -> str:
        return f"{self.kind}({column})" if self.width is None else f"{self.kind}({self.width}, {column})"

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Transform:
        return cls(kind=TransformKind(body["kind"]), column=body["column"], width=body["width"])
