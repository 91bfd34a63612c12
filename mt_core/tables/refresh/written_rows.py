"""Row counts: the columns of the ledger that describe the snapshot of a run."""

from __future__ import annotations

from typing import Any

from mt_core.incremental.strategy import Way
from mt_core.model.storage import Snapshot

_ONLY_ADD = frozenset({Way.NOTHING, Way.APPEND})


def written_rows(snapshot: Snapshot) -> dict[str, Any]:
    """Return the strategy, row counts and bytes read of a run, from the summary of its snapshot.

    A count is None if the strategy cannot know it. A strategy that rewrites rows does not compare their
    values, and one that deletes keys without looking them up does not count their rows.
    """
    # The snapshot of a recomputation at uncertain versions has no strategy.
    way = Way(snapshot.strategy or Way.RECOMPUTE)
    return {
        "rows": snapshot.added_rows,
        "strategy": way.value,
        "rows_inserted": snapshot.added_rows,
        "rows_updated": 0 if way in _ONLY_ADD else None,
        "rows_deleted": None if snapshot.deleted_keys else snapshot.deleted_rows,
        "bytes_read": snapshot.bytes_read,
    }
