"""Catalogs created by CREATE CATALOG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedCatalog:
    """One created catalog. Its options may contain passwords, so its repr omits them."""

    name: str
    options: Mapping[str, str] = field(repr=False)
    comment: str | None = None
