"""The refresh state of a snapshot: its sources, in the form of Iceberg's draft of materialized views.

The draft (apache/iceberg#11041) is not part of Iceberg's specification yet. So `VERSION` says which form of
it a snapshot has, and the entry of the draft itself contains nothing else. No decision of a refresh depends
on the state: it is derived from the source vector, for other engines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mt_core.base.identifiers import namespace_of
from mt_core.model.storage import ICEBERG_REFRESH_STATE, PIN, REFRESH_STATE
from mt_core.tables.engine import SourceVector, SourceVersion

VERSION = 1
"""The form of the draft, which docs/how-to/read-with-other-engines.md describes."""
# The draft requires the version of a view, a 32-bit integer. These digits of the fingerprint fit into one.
_DIGITS = 7


def refresh_state(
    vector: SourceVector, *, catalog: str, fingerprint: str | None, began_at: datetime
) -> dict[str, str]:
    """Return the summary entries for rows that are those of the query at *vector*.

    *catalog* is that of the materialized table, and *began_at* a time before the versions were read. The
    state covers the Iceberg tables that the query reads at their current version, or nothing if the query
    cannot be pinned. The other sources are listed as omitted.
    """
    pinned = [] if vector.unpinnable else [each for each in vector.sources if PIN in (each.version or {})]
    state = {
        "view-version-id": int((fingerprint or "0")[:_DIGITS], 16),
        "refresh-start-timestamp-ms": int(began_at.timestamp() * 1000),
        "source-states": [_source_state(each, each.version or {}, catalog) for each in pinned],
    }
    omitted = sorted(each.name for each in vector.sources if each not in pinned)
    return {
        ICEBERG_REFRESH_STATE: json.dumps(state),
        REFRESH_STATE: json.dumps({"version": VERSION, "omitted": omitted}),
    }


def _source_state(source: SourceVersion, version: Mapping[str, Any], catalog: str) -> dict[str, Any]:
    first, *namespace, name = namespace_of(source.name)
    return {
        "type": "table",
        **({} if first == catalog else {"catalog": first}),
        "namespace": namespace,
        "name": name,
        "uuid": version["uuid"],
        "snapshot-id": int(version[PIN]),
    }
