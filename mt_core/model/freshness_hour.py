"""An hour of a table's freshness: how stale it was, for how long it was late, and what was written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessHour:
    """The freshness of a table in the hour that begins at `hour` (UTC), or in a part of this hour.

    `worst_s` is the highest staleness, and the table was late for `late_s` seconds. `fault` is the cause of
    the last lateness, None if it was not late. `batches` and `rows` were published, and `failed` refreshes
    failed.
    """

    table_id: str
    hour: datetime
    worst_s: float
    late_s: float
    fault: str | None
    batches: int
    rows: int
    failed: int
