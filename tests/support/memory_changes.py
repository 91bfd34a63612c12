"""The change numbers, notices and hours of freshness of the registry in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

from mt_core.model.freshness_hour import FreshnessHour
from mt_core.registry.rows import instant_text
from mt_core.tables.registry import Notice

if TYPE_CHECKING:
    from tests.support.memory_registry import MemoryTransaction


class MemoryChanges:
    """A `StoredChanges` that uses the state of *transaction*."""

    def __init__(self, transaction: MemoryTransaction) -> None:
        self._tx = transaction

    def newest(self) -> int:
        state = self._tx.state
        return max(
            chain(state.changed.values(), (number for number, _at in state.deletions.values())), default=0
        )

    def tables_after(self, number: int) -> Collection[str]:
        state = self._tx.state
        changed = {table_id for table_id, last in state.changed.items() if last > number}
        return changed | {table_id for table_id, (last, _at) in state.deletions.items() if last > number}

    def forget(self, before: datetime) -> None:
        newest = self.newest()
        self._tx.change(
            deletions={
                table_id: (number, at)
                for table_id, (number, at) in self._tx.state.deletions.items()
                if at >= before or number == newest
            }
        )

    def note(self, table_id: str) -> None:
        """Store that a table or a run of it was written."""
        self._tx.change(changed={**self._tx.state.changed, table_id: self.newest() + 1})

    def note_deletions(self, table_ids: Iterable[str]) -> None:
        """Store that these tables, or runs of them, were deleted."""
        deletion = self.newest() + 1, self._tx.now()
        self._tx.change(deletions={**self._tx.state.deletions, **dict.fromkeys(table_ids, deletion)})


class MemoryNotices:
    """A `StoredNotices` that uses the state of *transaction*."""

    def __init__(self, transaction: MemoryTransaction) -> None:
        self._tx = transaction

    def put(self, kind: str, body: Mapping[str, Any]) -> None:
        number = self._tx.state.last_notice + 1
        notice = Notice(number=number, kind=kind, at=self._tx.now(), body=body)
        self._tx.change(notices={**self._tx.state.notices, number: notice}, last_notice=number)

    def oldest(self, limit: int) -> Sequence[Notice]:
        return list(self._tx.state.notices.values())[:limit]

    def delete(self, numbers: Collection[int]) -> None:
        notices = self._tx.state.notices
        self._tx.change(notices={key: notice for key, notice in notices.items() if key not in numbers})

    def count(self) -> int:
        return len(self._tx.state.notices)


class MemoryFreshness:
    """A `StoredFreshness` that uses the state of *transaction*."""

    def __init__(self, transaction: MemoryTransaction) -> None:
        self._tx = transaction

    def add(self, hour: FreshnessHour) -> None:
        instant_text(hour.hour)
        key = hour.table_id, hour.hour
        stored = self._tx.state.hours.get(key)
        if stored is not None:
            hour = replace(
                stored,
                worst_s=max(stored.worst_s, hour.worst_s),
                late_s=stored.late_s + hour.late_s,
                fault=stored.fault if hour.fault is None else hour.fault,
                batches=stored.batches + hour.batches,
                rows=stored.rows + hour.rows,
                failed=stored.failed + hour.failed,
            )
        self._tx.change(hours={**self._tx.state.hours, key: hour})

    def of(self, table_id: str, since: datetime) -> Sequence[FreshnessHour]:
        hours = self._tx.state.hours
        return [hours[key] for key in sorted(hours) if key[0] == table_id and key[1] >= since]

    def forget(self, before: datetime) -> None:
        hours = self._tx.state.hours
        self._tx.change(hours={key: hour for key, hour in hours.items() if key[1] >= before})
