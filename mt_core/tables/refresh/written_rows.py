"""Written rows: what the ledger records of the snapshot that a run published."""

from __future__ import annotations

from typing import Any

from mt_core.incremental.strategy import Way
from mt_core.model.storage import Snapshot

_ONLY_ADD = frozenset({Way.NOTHING, Way.APPEND})


def written_rows(snapshot: Snapshot) -> dict[str, Any]:
    """Return how a run got its rows, how many it wrote, and what it read for that, as its snapshot tells it.

    A strategy that writes rows again cannot know which of them have other values now,
    and one that deletes keys unseen not how many rows had them.
    """
    # A recomputation that did not read certain versions leaves its name out of the snapshot.
    way = Way(snapshot.strategy or Way.RECOMPUTE)
    return {
        "rows": snapshot.added_rows,
        "strategy": way.value,
        "rows_inserted": snapshot.added_rows,
        "rows_updated": 0 if way in _ONLY_ADD else None,
        "rows_deleted": None if snapshot.deleted_keys else snapshot.deleted_rows,
        "bytes_read": snapshot.bytes_read,
    }
