"""Recorded Spark plans of `maintained_queries`.

They are the JSON that the maintenance rules read, reduced to the relevant fields.
`python -m tests.integration.shape_plans` records them.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("recorded_plans.json")
TREES = RECORD.with_name("recorded_trees.json.xz")
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


def recorded_trees() -> Mapping[str, list[Plan]]:
    """Return the trees of each query in stages by name: the reduced plan and those of its subqueries."""
    trees: Mapping[str, list[Plan]] = json.loads(lzma.decompress(TREES.read_bytes()))
    return trees


def write_plans(plans: Mapping[str, tuple[Plan, list[Plan]]], trees: Mapping[str, list[Plan]]) -> None:
    """Store what `recorded` and `recorded_trees` return, each query in one line."""
    RECORD.write_text(lines_of(plans), encoding="utf-8")
    TREES.write_bytes(lzma.compress(lines_of(trees).encode(), preset=9))


def lines_of(values: Mapping[str, Any]) -> str:
    """Return a JSON object with one line for each value."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in values.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def trimmed_trees(trees: Iterable[Plan]) -> list[Plan]:
    """Return the trees of a query in stages as `trimmed` does."""
    ids: dict[int, int] = {}
    return [_trimmed(each, ids) for each in trees]


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
