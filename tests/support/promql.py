"""What PromQL expressions use of the exposition: metric families and their labels.

This is not a parser of PromQL: it finds names, and the labels of selectors and of aggregations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from mt_core.metrics.families import FAMILIES, Family, Kind

# Labels that Prometheus adds to a target's series, and the one of the buckets of a histogram.
OF_TARGET = frozenset({"job", "instance"})
BUCKETS = frozenset({"le"})
_METRIC = re.compile(r"\b(freshtable_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"[^\"]*\"")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")


def families() -> Mapping[str, Family]:
    """Return the family of each name that PromQL knows, such as those of a histogram's parts."""
    return {name: family for family in FAMILIES for name in _names(family)}


def _names(family: Family) -> Iterator[str]:
    if family.kind is Kind.HISTOGRAM:
        yield from (f"{family.name}_{part}" for part in ("bucket", "sum", "count"))
    else:
        yield family.name


def metrics_of(expression: str) -> set[str]:
    """Return the names of Freshtable's metrics in *expression*."""
    return {found[1] for found in _METRIC.finditer(expression)}


def unknown_labels(expression: str) -> set[str]:
    """Return the labels that *expression* uses although none of its families, nor a target, has them."""
    declared = families()
    unknown = set[str]()
    everywhere = set(OF_TARGET)
    for name, matchers in _METRIC.findall(expression):
        own = OF_TARGET | set(declared[name].labels) | (BUCKETS if name.endswith("_bucket") else set())
        everywhere |= own
        unknown |= set(_MATCHER.findall(matchers)) - own
    for grouping in _GROUPING.findall(expression):
        unknown |= {label.strip() for label in grouping.split(",")} - everywhere
    return unknown


def labels_of(expression: str) -> frozenset[str]:
    """Return the labels that the families of *expression* have, with those of a target."""
    declared = families()
    return OF_TARGET.union(*(declared[name].labels for name in metrics_of(expression)))
