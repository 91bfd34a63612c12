"""Accumulators: the aggregates that a state can maintain, as sums and counts of their arguments.

A state has for each group the exact sum and the number of the values that an aggregate function has seen.
Those of added rows are added and those of removed rows subtracted, and the function is evaluated from the
result. So it must need no more than these two, and the sum must be exact: doubles are not, and a function
that returns NULL after an overflow would have to know whether one has occurred.

A DISTINCT function needs to know how many rows have each value of its argument. Without grouping keys, a
state has a group for each combination of such values, over which the function is evaluated. With grouping
keys, this state would have as many groups as its source has rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_FROM_SUMS = frozenset({"Sum", "Average"})
_OF_DISTINCT = _FROM_SUMS | {"Count", "Min", "Max"}
_IN_SQL = {"Average": "avg"}
_EXACT = re.compile(r"(tinyint|byte|smallint|short|int|integer|bigint|long|decimal\(.*\))")
# Types that a state's table cannot store or group by.
_NO_KEY = re.compile(r"interval|void|map<|variant|geometry|geography|\btime\b|struct<>")


def sql_name_of(function: Mapping[str, Any]) -> str:
    """Return the SQL name of an aggregate function, from the facts about it in a plan."""
    kind = str(function["kind"])
    return _IN_SQL.get(kind) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower()


def is_exact(type_: str) -> bool:
    """Return whether sums of a SQL type are exact."""
    return _EXACT.fullmatch(type_.lower()) is not None


def obstacle_of(function: Mapping[str, Any], *, has_keys: bool = True) -> str | None:
    """Return why a state cannot maintain an aggregate function, or None if it can.

    *has_keys* says whether there are grouping keys.
    """
    name = sql_name_of(function)
    if function["distinct"]:
        if has_keys or function["kind"] not in _OF_DISTINCT:
            return f"{name}(DISTINCT) needs more than sums and counts"
        unusable = _NO_KEY.search(str(function["inputType"]).lower())
        return f"{name}(DISTINCT) of {function['inputType']}" if unusable else None
    if function["kind"] == "Count":
        return None
    if function["kind"] not in _FROM_SUMS:
        return f"{name} needs more than sums and counts"
    if not is_exact(str(function["inputType"])):
        return f"{name} of {function['inputType']} is not exact"
    if function["evalMode"] != "ANSI":
        return f"{name} is NULL after an overflow"
    return None


def obstacle_of_key(type_: str) -> str | None:
    """Return why a state cannot have a grouping key of a SQL type, or None if it can."""
    return f"its grouping key has type {type_}" if _NO_KEY.search(type_.lower()) else None
