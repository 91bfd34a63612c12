"""Iceberg's partition transforms: functions of a column that determine only the layout of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mt_core.base.identifiers import display_name, quote


class TransformKind(StrEnum):
    """The function that a transform applies."""

    YEARS = "years"
    MONTHS = "months"
    DAYS = "days"
    HOURS = "hours"
    BUCKET = "bucket"
    TRUNCATE = "truncate"

    @property
    def has_width(self) -> bool:
        """Whether the transform takes a number in addition to its column."""
        return self in (TransformKind.BUCKET, TransformKind.TRUNCATE)

    @property
    def singular(self) -> str:
        """The name that Iceberg's own classes use."""
        return self.removesuffix("s")


SPELLINGS: Mapping[str, TransformKind] = {
    **{name.upper(): kind for kind in TransformKind for name in (kind, kind.singular)},
    "DATE": TransformKind.DAYS,
    "DATE_HOUR": TransformKind.HOURS,
}
"""The names that Iceberg accepts for each transform in Spark SQL, in upper case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """A transform of a column; `width` is the number of buckets, or the width of truncated values."""

    kind: TransformKind
    column: str
    width: int | None = None

    def __str__(self) -> str:
        return self._written(display_name((self.column,)))

    @property
    def sql(self) -> str:
        """The transform as written in PARTITIONED BY."""
        return self._written(quote(self.column))

    @property
    def field(self) -> str:
        """Iceberg's name for the partition field."""
        return f"{self.column}_{'trunc' if self.kind is TransformKind.TRUNCATE else self.kind.singular}"

    def _written(self, column: str) -> str:
        return f"{self.kind}({column})" if self.width is None else f"{self.kind}({self.width}, {column})"

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Transform:
        return cls(kind=TransformKind(body["kind"]), column=body["column"], width=body["width"])
