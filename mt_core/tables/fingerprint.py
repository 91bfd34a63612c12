"""The fingerprint of a table's definition: it changes whenever equal source versions may give other rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256

from mt_core.model.table import TableDefinition


def fingerprint_of(definition: TableDefinition, dynamic_options: Mapping[str, str]) -> str:
    """Return 32 hex digits over query, columns, partitioning, options, frozen settings, zone and *dynamic_options*."""
    facts = {
        "query": definition.expanded_query,
        "columns": [[column.name, column.type] for column in definition.columns],
        "partition_keys": list(definition.partition_keys),
        "options": dict(definition.options),
        "settings": dict(definition.settings),
        "zone": definition.zone,
        "dynamic_options": dict(dynamic_options),
    }
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]
