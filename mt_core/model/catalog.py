"""A catalog that a statement created: what CREATE CATALOG said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedCatalog:
    """Name, options as they were written, and comment. The options can hold passwords, so they are not in its repr."""

    name: str
    options: Mapping[str, str] = field(repr=False)
    comment: str | None = None
