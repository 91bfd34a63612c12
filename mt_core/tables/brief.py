"""Abbreviations that let a row of the short forms of SHOW fit on one line."""

from __future__ import annotations

from datetime import datetime

from mt_core.model.formatter import show_schedule_time
from mt_core.model.partition import Scope

_LONGEST = 100


def brief_text(text: str | None) -> str | None:
    """Return *text* on one line, truncated if it is long, or None if it is empty."""
    line = " ".join((text or "").split())
    return (line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1].rstrip()}…") or None


def brief_scope(scope: Scope) -> str:
    """Return the partition, or the number of partitions if there are several."""
    return str(scope) if scope.specs is None or len(scope.specs) == 1 else f"{len(scope.specs)} partitions"


def brief_time(instant: datetime, zone: str) -> str:
    """Return *instant* as local time in *zone*, without the year, and without seconds if they are zero."""
    return show_schedule_time(instant, zone).partition("-")[2].removesuffix(":00")
