"""The name of a stage: a hash of what its aggregate computes, of which sources. So is the name of a value.

Two plans compute the same if they differ only in the ids that Spark gives to attributes, in the names of
aliases, and in columns of the sources that they do not use. Spark's version is part of the name, since the
rules that form a plan change, and so is the format of states.

The JSON of a plan lacks some values (a long IN list, for instance), so equal names do not prove that two
aggregates are the same. Within a query Spark compares them; for two definitions of a table nothing has to,
since the first refresh of a new definition computes the states again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from mt_core.incremental.plan import Node

FORMAT = 1
"""The format of states. States of another format have other names, and are never read."""

_LENGTH = 16
# Fields that differ between uses of equal expressions, and facts about the place of an operator.
_NOISE = frozenset({
    *("qualifier", "metadata", "explicitMetadata", "nonInheritableMetadataKeys", "nullable", "jvmId"),
    *("resultId", "table", "catalog", "options", "hint", "origin", "timeTravelSpec"),
    *("reading", "subquery", "same", "deterministic"),
})  # fmt: skip
_NAMED = frozenset({"AttributeReference", "Alias"})


def stage_name(
    aggregate: Node,
    sources: Sequence[str],
    *,
    version: str,
    values: Sequence[str] = (),
    distinguished: int = 0,
) -> str:
    """Return the name of a stage that computes *aggregate*.

    *sources* are the names of the readings by number, *version* is Spark's. *values* are the names of the
    values of scalar subqueries below it, in order. Two stages of a query that are not the same although their
    JSON is have different numbers in *distinguished*.
    """
    labels = _labels(aggregate)
    described = [
        [FORMAT, version, distinguished],
        _plain(aggregate.fields["groupingExpressions"], labels),
        [_described(each, labels) for each in functions_in(aggregate)],
        _plain(aggregate.fields["functions"], labels),
        _operator(aggregate.children[0], sources, labels),
    ]
    return _hashed([*described, *([list(values)] if values else [])])


def value_name(
    tree: Node, sources: Sequence[str], *, version: str, values: Sequence[str] = (), distinguished: int = 0
) -> str:
    """Return the name of the value of a scalar subquery, given its *tree*, as `stage_name` does."""
    described = _operator(tree, sources, _labels(tree))
    return _hashed(["value", FORMAT, version, distinguished, described, list(values)])


def _labels(node: Node) -> dict[int, str]:
    """Return labels for the columns of the relations below an operator, by id."""
    return {
        column.identity: f"{number}.{column.fields['name']}"
        for number, relation in enumerate(_relations(node))
        for column in relation.expressions("output")
    }


def _hashed(described: Sequence[Any]) -> str:
    return sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:_LENGTH]


def functions_in(aggregate: Node) -> Iterator[Node]:
    """Yield the aggregate functions in the columns of an Aggregate, each as often as it is used."""
    for item in aggregate.expressions("aggregateExpressions"):
        yield from _functions(item)


def _functions(expression: Node) -> Iterator[Node]:
    if expression.kind == "AggregateExpression":
        yield expression
        return
    for child in expression.children:
        yield from _functions(child)


def _relations(node: Node) -> Iterator[Node]:
    if node.fields.get("reading") is not None:
        yield node
    for child in node.children:
        yield from _relations(child)


def _operator(node: Node, sources: Sequence[str], labels: dict[int, str]) -> Any:
    reading = node.fields.get("reading")
    if reading is not None:
        return sources[reading]
    return _described(node, labels, [_operator(child, sources, labels) for child in node.children])


def _described(node: Node, labels: dict[int, str], children: Any = None) -> Any:
    if children is None:
        children = [_described(child, labels) for child in node.children]
    return [_plain(node.fields, labels), children]


def _plain(value: Any, labels: dict[int, str]) -> Any:
    """Return JSON without noise, with *labels* instead of ids. A new id gets the next label."""
    if isinstance(value, list):
        return [_plain(each, labels) for each in value]
    if not isinstance(value, Mapping):
        return value
    kind = str(value.get("class", "")).rpartition(".")[2]
    kept: dict[str, Any] = {}
    for key, each in value.items():
        if key == "exprId":
            kept[key] = labels.setdefault(each["id"], str(len(labels)))
        elif key in ("class", "object", "product-class"):
            kept[key] = str(each).rpartition(".")[2]
        elif key not in _NOISE and not (key == "name" and kind in _NAMED):
            kept[key] = _plain(each, labels)
    return kept
