"""Stability of a query: whether equal sources always give equal rows. Pure: it reads the JSON of an analysed plan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_UNSTABLE = {
    "AnyValue": "any_value()",
    "CallMethodViaReflection": "reflect()",
    "TryReflect": "try_reflect()",
    "CollectList": "collect_list()",
    "CollectSet": "collect_set()",
    "CurrentCatalog": "current_catalog()",
    "CurrentDatabase": "current_database()",
    "CurrentDate": "current_date()",
    "CurrentTime": "current_time()",
    "CurrentTimestamp": "current_timestamp()",
    "CurrentUser": "current_user()",
    "First": "first()",
    "InputFileBlockLength": "input_file_block_length()",
    "InputFileBlockStart": "input_file_block_start()",
    "InputFileName": "input_file_name()",
    "Last": "last()",
    "ListAgg": "listagg()",
    "LocalTimestamp": "localtimestamp()",
    "MonotonicallyIncreasingID": "monotonically_increasing_id()",
    "Now": "now()",
    "Rand": "rand()",
    "RandStr": "randstr()",
    "Randn": "randn()",
    "Sample": "TABLESAMPLE",
    "Shuffle": "shuffle()",
    "SparkPartitionID": "spark_partition_id()",
    "Uniform": "uniform()",
    "Uuid": "uuid()",
    "VariableReference": "a session variable",
}
_FOREIGN_CODE = frozenset(
    {
        "ArrowEvalPythonUDTF",
        "HiveGenericUDF",
        "HiveGenericUDTF",
        "HiveSimpleUDF",
        "HiveUDAFFunction",
        "PythonUDAF",
        "PythonUDF",
        "PythonUDTF",
        "ScalaAggregator",
        "ScalaUDAF",
        "ScalaUDF",
        "ScriptTransformation",
        "TypedColumn",
    }
)
_BELOW_LIMIT = frozenset({"GlobalLimit", "LocalLimit", "Offset", "Project", "SubqueryAlias", "Tail"})


def unstable_reason(plan_json: str) -> str | None:
    """Return what in the plan can give other rows from the same sources, or None."""
    for tree in _trees(json.loads(plan_json)):
        names = [str(node["class"]).rsplit(".", 1)[-1] for node in tree]
        for index, name in enumerate(names):
            reason = _UNSTABLE.get(name) or _of_code(name, tree[index]) or _of_limit(names, index)
            if reason:
                return reason
    return None


def _of_code(name: str, node: dict[str, Any]) -> str | None:
    if name not in _FOREIGN_CODE:
        return None
    called = node.get("name") or node.get("udfName") or name
    return f"the user-defined function {called}"


def _of_limit(names: list[str], index: int) -> str | None:
    """A tree lists a node's only child right after it, so a LIMIT that is ordered has a Sort below in the same list."""
    if names[index] not in {"GlobalLimit", "Offset", "Tail"}:
        return None
    below = next((name for name in names[index + 1 :] if name not in _BELOW_LIMIT), None)
    return None if below == "Sort" else "LIMIT without ORDER BY"


def _trees(body: Any) -> Iterator[list[dict[str, Any]]]:
    """Yield every list of nodes, in pre-order, anywhere in *body*: plans, expressions, and plans within expressions."""
    if isinstance(body, list):
        if body and all(isinstance(item, dict) and "class" in item for item in body):
            yield body
        for item in body:
            yield from _trees(item)
    elif isinstance(body, dict):
        for value in body.values():
            yield from _trees(value)
