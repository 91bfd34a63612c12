"""Determinism of a query: whether it always returns the same rows for the same source versions.

A refresh is skipped if no source changed, and changes may be applied instead of recomputing the table. Both
are correct only for a deterministic query. The check walks the JSON of the analysed plan and does not need
Spark. It looks for functions of time, randomness, session and file layout, for user code that is not
declared deterministic, for results that depend on the order of rows, and for Iceberg metadata columns,
which a compaction changes. Time literals such as DATE 'today' are constants in the plan, so they are
searched for in the text. For user code and for times computed from text, the check may report a query that
is in fact deterministic.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any

from mt_core.base.tokens import TokenKind, significant
from mt_core.incremental.certainty import OF_ORDER
from mt_core.model.storage import METADATA_COLUMNS

_UNSTABLE = {
    "CallMethodViaReflection": "reflect()",
    "TryReflect": "try_reflect()",
    "CurrentCatalog": "current_catalog()",
    "CurrentDatabase": "current_database()",
    "CurrentDate": "current_date()",
    "CurrentTime": "current_time()",
    "CurrentTimestamp": "current_timestamp()",
    "CurrentUser": "current_user()",
    "InputFileBlockLength": "input_file_block_length()",
    "InputFileBlockStart": "input_file_block_start()",
    "InputFileName": "input_file_name()",
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
# JSON fields that may contain the name of a user-defined function.
_NAMES = ("name", "udfName", "udafName", "aggregatorName")
_ICEBERG_RELATION = "DataSourceV2Relation"
_LIMITS = frozenset({"GlobalLimit", "Offset", "Tail"})
_BELOW_LIMIT = frozenset({"GlobalLimit", "LocalLimit", "Offset", "Project", "SubqueryAlias", "Tail"})

# Words that Spark converts to the current time, optionally followed by a time zone. 'epoch' is not one of
# them because it is constant.
_MOMENT = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_TIME_KEYWORDS = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
_TIME_TYPES = frozenset({"date", "timestamp", "timestamp_ntz"})
_TIME_FUNCTIONS = re.compile(r"Parse|ToDate|ToTime|ToTimestamp|GetTimestamp|DateExpression")

_Node = dict[str, Any]


def unstable_reason(
    plan_json: str, *, of_order: bool = True, deterministic: frozenset[str] = frozenset()
) -> str | None:
    """Return which part of the plan makes the query nondeterministic, or None.

    With *of_order*, this includes results that depend on the order of rows. *deterministic* are the
    user-defined functions that are declared deterministic.
    """
    body = json.loads(plan_json)
    for tree in _trees(body):
        for index in range(len(tree)):
            reason = (_order_reason(tree, index) if of_order else None) or _node_reason(
                tree, index, deterministic
            )
            if reason:
                return reason
    return _metadata_reason(body)


def unstable_literal(text: str) -> str | None:
    """Return a literal such as DATE 'today' in the text of a query, or None if there is none.

    The plan contains only the resulting day.
    """
    for word, literal in pairwise(significant(text)):
        if (
            word.keyword in _TIME_KEYWORDS
            and literal.kind is TokenKind.STRING
            and _MOMENT.match(literal.value)
        ):
            return f"{word.keyword} '{literal.value}'"
    return None


def _trees(body: Any) -> Iterator[list[_Node]]:
    """Yield every tree of plans or expressions in *body*, as a list of nodes in pre-order."""
    if isinstance(body, list):
        if body and all(isinstance(item, dict) and "class" in item for item in body):
            yield body
        for item in body:
            yield from _trees(item)
    elif isinstance(body, dict):
        for value in body.values():
            yield from _trees(value)


def _metadata_reason(body: Any) -> str | None:
    """Return an Iceberg metadata column that the plan reads, or None.

    A compaction changes the values of such columns but does not count as a change of rows. If a query reads
    one of these columns, its relation outputs all of them.
    """
    relations = {
        id(node["output"]): node["output"] for node in _nodes(body) if _class_name(node) == _ICEBERG_RELATION
    }
    outputs = {
        attribute["exprId"]["id"]: str(attribute["name"])
        for output in relations.values()
        for [attribute, *_] in output
        if attribute["name"] in METADATA_COLUMNS
    }
    if not outputs:
        return None
    read = {
        outputs[node["exprId"]["id"]]
        for node in _nodes(body, besides=relations.keys())
        if _class_name(node) == "AttributeReference" and node["exprId"]["id"] in outputs
    }
    return f"the metadata column {min(read or outputs.values())}"


def _nodes(body: Any, besides: Collection[int] = ()) -> Iterator[_Node]:
    """Yield every node in *body*, except in lists whose id() is in *besides*."""
    if isinstance(body, dict):
        if "class" in body:
            yield body
        body = list(body.values())
    for value in body if isinstance(body, list) else ():
        if id(value) not in besides:
            yield from _nodes(value, besides)


def _order_reason(tree: list[_Node], index: int) -> str | None:
    name = _class_name(tree[index])
    if name in _LIMITS:
        # A tree lists the only child of a node directly after the node. The Sort of an ordered LIMIT is
        # therefore next in the same list.
        below = next(
            (other for other in map(_class_name, tree[index + 1 :]) if other not in _BELOW_LIMIT), None
        )
        return None if below == "Sort" else "LIMIT without ORDER BY"
    return OF_ORDER.get(name)


def _node_reason(tree: list[_Node], index: int, deterministic: frozenset[str]) -> str | None:
    node, name = tree[index], _class_name(tree[index])
    if name in _UNSTABLE:
        return _UNSTABLE[name]
    function = str(next(filter(None, map(node.get, _NAMES)), name))
    if name in _FOREIGN_CODE and function.lower() not in deterministic:
        return f"the user-defined function {function}"
    is_cast = name == "Cast" and node.get("dataType") in _TIME_TYPES
    if is_cast or _TIME_FUNCTIONS.search(name):
        return _moment_reason(_descendants(tree, index), is_cast=is_cast)
    return None


def _moment_reason(argument: list[_Node], *, is_cast: bool) -> str | None:
    """Return why the result of converting a string to a time may depend on the current time, or None.

    The string may be a word such as 'now', or be computed from constants that could form a word like this.
    """
    texts = [
        str(node.get("value")) for node in argument if node.get("dataType") == "string" and "value" in node
    ]
    for text in texts:
        if _MOMENT.match(text):
            return f"'{text}' as a time"
    computed = is_cast and len(argument) > 1 and "AttributeReference" not in map(_class_name, argument)
    return "a time from a computed text" if computed and texts else None


def _descendants(tree: list[_Node], index: int) -> list[_Node]:
    """Return the nodes below the node at *index* in a list in pre-order."""
    end, missing = index + 1, int(tree[index]["num-children"])
    while missing and end < len(tree):
        missing += int(tree[end]["num-children"]) - 1
        end += 1
    return tree[index + 1 : end]


def _class_name(node: _Node) -> str:
    return str(node["class"]).rsplit(".", 1)[-1]
