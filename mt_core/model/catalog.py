"""Catalogs that CREATE CATALOG created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedCatalog:
    """One created catalog. Its options can hold passwords, so its repr leaves them out."""

    name: str
    options: Mapping[str, str] = field(repr=False)
    comment: str | None = None
