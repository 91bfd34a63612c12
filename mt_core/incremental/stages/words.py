"""Words for users: how EXPLAIN describes aggregates and lists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mt_core.incremental.plan import Node
from mt_core.incremental.stages.accumulators import sql_name_of

_MOST_NAMED = 3
# Spark computes an expression that forms groups or partitions below them, in a column of such a name.
_OF_EXPRESSION = re.compile(r"_groupingexpression|_w\d+")


def shortened(words: Sequence[str], separator: str = ", ") -> str:
    """Return the first of *words*, and how many more there are."""
    named = separator.join(words[:_MOST_NAMED])
    return named if len(words) <= _MOST_NAMED else f"{named} and {len(words) - _MOST_NAMED} more"


def words_of_key(key: Node) -> str:
    """Return the name of a column that forms groups or partitions, or `(...)` if it is an expression."""
    name = str(key.fields.get("name") or "")
    return "(...)" if not name or _OF_EXPRESSION.fullmatch(name) else name


def words_of_aggregate(aggregate: Node) -> str:
    """Return the functions and the keys of an aggregate, such as `sum, count by city`."""
    functions = ", ".join(dict.fromkeys(map(_called, aggregate.fields["functions"]))) or "distinct"
    names = {
        item.value().canonical(): str(item.fields["name"])
        for item in aggregate.expressions("aggregateExpressions")
    }
    keys = [
        names.get(key.canonical()) or words_of_key(key)
        for key in aggregate.expressions("groupingExpressions")
    ]
    return f"{functions} by {shortened(keys)}" if keys else f"{functions} of all rows"


def _called(function: Mapping[str, Any]) -> str:
    return f"{sql_name_of(function)}{'(DISTINCT)' if function['distinct'] else ''}"
