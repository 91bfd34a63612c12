"""Catalogs created by CREATE CATALOG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedCatalog:
    """A catalog created by CREATE CATALOG; the repr omits its options, which may contain passwords."""

    name: str
    options: Mapping[str, str] = field(repr=False)
    comment: str | None = None
