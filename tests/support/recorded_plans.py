"""Recorded Spark plans of `maintained_queries`.

They are the JSON that the maintenance rules read, reduced to the relevant fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("recorded_plans.json")
# Fields that the rules do not read, and fields that differ between analyses.
_NOISE = frozenset({
    "qualifier", "metadata", "nonInheritableMetadataKeys", "nullable", "jvmId", "table", "catalog", "options",
    "hint", "origin", "resultId", "timeTravelSpec",
})  # fmt: skip

Plan = list[dict[str, Any]]


def recorded() -> Mapping[str, tuple[Plan, list[Plan]]]:
    """Return the plan of each query by name, with the subqueries that remain in its expressions."""
    return {
        name: (plan, subqueries) for name, (plan, subqueries) in json.loads(RECORD.read_text("utf-8")).items()
    }


def trimmed(plan: str, subqueries: Iterable[str]) -> tuple[Plan, list[Plan]]:
    """Return the JSON of plans without noise. Attribute ids are numbered from 0 in order of appearance."""
    ids: dict[int, int] = {}
    return _trimmed(json.loads(plan), ids), [_trimmed(json.loads(each), ids) for each in subqueries]


def _trimmed(value: Any, ids: dict[int, int]) -> Any:
    if isinstance(value, list):
        return [_trimmed(each, ids) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, each in value.items():
        if key == "exprId":
            kept[key] = {"id": ids.setdefault(each["id"], len(ids))}
        elif key in ("class", "object", "product-class"):
            kept[key] = each.rpartition(".")[2]
        elif key not in _NOISE:
            kept[key] = _trimmed(each, ids)
    return kept
