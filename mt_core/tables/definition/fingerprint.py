"""The fingerprint of a definition: it changes whenever equal source versions could give different rows."""

from __future__ import annotations

import json
from hashlib import sha256

from mt_core.model.table import FORMATTER_PREFIX, TableDefinition
from mt_core.tables.definition.options import EXECUTION


def fingerprint_of(definition: TableDefinition) -> str:
    """Return a hash of 32 hex digits over the parts of *definition* that determine rows.

    These are the query, columns, partitioning, date-formatters, frozen settings and time zone. Options and
    settings that only determine how rows are computed and stored are excluded.
    """
    facts = {
        "query": definition.expanded_query,
        "columns": [[column.name, column.type] for column in definition.columns],
        "partition_keys": list(definition.partition_keys),
        "options": {
            key: value for key, value in definition.options.items() if key.startswith(FORMATTER_PREFIX)
        },
        "settings": {key: value for key, value in definition.settings.items() if key not in EXECUTION},
        "zone": definition.zone,
        # Empty, and part of every stored fingerprint.
        "dynamic_options": {},
    }
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]
