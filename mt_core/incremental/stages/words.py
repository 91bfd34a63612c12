"""Words for users: how EXPLAIN describes aggregates and lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mt_core.incremental.plan import Node
from mt_core.incremental.stages.accumulators import sql_name_of

_MOST_NAMED = 3


def shortened(words: Sequence[str], separator: str = ", ") -> str:
    """Return the first of *words*, and how many more there are."""
    named = separator.join(words[:_MOST_NAMED])
    return named if len(words) <= _MOST_NAMED else f"{named} and {len(words) - _MOST_NAMED} more"


def words_of_aggregate(aggregate: Node) -> str:
    """Return the functions and the keys of an aggregate, such as `sum, count by city`."""
    functions = ", ".join(dict.fromkeys(map(_called, aggregate.fields["functions"]))) or "distinct"
    names = {
        item.value().canonical(): str(item.fields["name"])
        for item in aggregate.expressions("aggregateExpressions")
    }
    keys = [
        names.get(key.canonical()) or str(key.fields.get("name") or f"{key.kind.lower()}(...)")
        for key in aggregate.expressions("groupingExpressions")
    ]
    return f"{functions} by {shortened(keys)}" if keys else f"{functions} of all rows"


def _called(function: Mapping[str, Any]) -> str:
    return f"{sql_name_of(function)}{'(DISTINCT)' if function['distinct'] else ''}"
