"""Stability of a query: whether equal sources always give equal rows. Pure: it reads the JSON of an analysed plan."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from mt_core.tokens import TokenKind, significant

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


# Words that Spark reads as a moment, with a time zone after them or not; 'epoch' is always the same one.
_MOMENT = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_TYPED = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
_READS_TIME = re.compile(r"Parse|ToDate|ToTime|ToTimestamp|GetTimestamp|DateExpression")


def unstable_reason(plan_json: str) -> str | None:
    """Return what in the plan can give other rows from the same sources, or None."""
    for tree in _trees(json.loads(plan_json)):
        names = [str(node["class"]).rsplit(".", 1)[-1] for node in tree]
        for index, name in enumerate(names):
            reason = (
                _UNSTABLE.get(name)
                or _of_code(name, tree[index])
                or _of_limit(names, index)
                or _of_moment(tree, names, index)
            )
            if reason:
                return reason
    return None


def unstable_literal(text: str) -> str | None:
    """Return a literal such as DATE 'today' in the text of a query, or None: in the plan it is a day like any other."""
    for word, literal in pairwise(significant(text)):
        if word.keyword in _TYPED and literal.kind is TokenKind.STRING and _MOMENT.match(literal.value):
            return f"{word.keyword} '{literal.value}'"
    return None


def _of_moment(tree: list[dict[str, Any]], names: list[str], index: int) -> str | None:
    """A text that Spark reads as a moment: a word such as 'now', or a constant that is computed and may become one."""
    if not (names[index] == "Cast" and tree[index].get("dataType") in _TIMES) and not _READS_TIME.search(names[index]):
        return None
    below = _subtree(tree, index)
    texts = [str(node.get("value")) for node in below if node.get("dataType") == "string" and "value" in node]
    moment = next((text for text in texts if _MOMENT.match(text)), None)
    if moment is not None:
        return f"'{moment}' as a time"
    computed = len(below) > 1 and texts and "AttributeReference" not in _names(below) and names[index] == "Cast"
    return "a time from a computed text" if computed else None


def _subtree(tree: list[dict[str, Any]], index: int) -> list[dict[str, Any]]:
    """Return the nodes below one of a list in pre-order."""
    end, open_nodes = index + 1, int(tree[index]["num-children"])
    while open_nodes and end < len(tree):
        open_nodes += int(tree[end]["num-children"]) - 1
        end += 1
    return tree[index + 1 : end]


def _names(tree: list[dict[str, Any]]) -> set[str]:
    return {str(node["class"]).rsplit(".", 1)[-1] for node in tree}


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
