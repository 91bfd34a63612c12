"""The stored hours of freshness, within a transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, case, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from mt_core.model.freshness_hour import FreshnessHour
from mt_core.registry.rows import instant_text
from mt_core.registry.schema import HOURS
from mt_core.registry.statements import Statements


@dataclass(frozen=True, slots=True)
class SqlFreshness:
    """Implements `StoredFreshness`."""

    statements: Statements

    def add(self, hour: FreshnessHour) -> None:
        row = asdict(hour) | {"hour": instant_text(hour.hour)}
        self.statements.execute(_ADD[self.statements.connection.dialect.name], row)

    def of(self, table_id: str, since: datetime) -> Sequence[FreshnessHour]:
        values = {"table_id": table_id, "since": instant_text(since)}
        rows = self.statements.execute(_OF, values).mappings()
        return [FreshnessHour(**{**row, "hour": datetime.fromisoformat(row["hour"])}) for row in rows]

    def forget(self, before: datetime) -> None:
        self.statements.execute(_FORGET, {"before": instant_text(before)})


def _merging(insert: Callable[..., Any]) -> Any:
    """Return a statement that inserts an hour, or merges it with the stored part of the hour."""
    statement = insert(HOURS)
    added = statement.excluded
    merged = {
        "worst_s": case((added.worst_s > HOURS.c.worst_s, added.worst_s), else_=HOURS.c.worst_s),
        "fault": func.coalesce(added.fault, HOURS.c.fault),
        **{name: HOURS.c[name] + added[name] for name in ("late_s", "batches", "rows", "failed")},
    }
    return statement.on_conflict_do_update(index_elements=list(HOURS.primary_key), set_=merged)


_ADD = {"sqlite": _merging(sqlite.insert), "postgresql": _merging(postgresql.insert)}
_OF = (
    select(HOURS)
    .where(HOURS.c.table_id == bindparam("table_id"), HOURS.c.hour >= bindparam("since"))
    .order_by(HOURS.c.hour)
)
_FORGET = delete(HOURS).where(HOURS.c.hour < bindparam("before"))
