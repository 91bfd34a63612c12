"""The order of a stream's sources, which assigns the unnamed lines of Spark's offset log to the sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mt_core.base.identifiers import display_name
from mt_core.spark.driver.jvm_objects import class_name, scala_items

SOURCES = "sources"
"""The savepoint fact with that order; absent for a plan of version 1."""
_CATALOG_RELATION, _RELATION = "StreamingRelationV2", "StreamingRelation"
# Options that distinguish two sources with the same format.
_PLACES = ("subscribe", "subscribepattern", "assign", "path")


def names_of(plans: Sequence[Any]) -> tuple[str, ...]:
    """Return the sources of the members' analysed *plans*, in the order of Spark's offset log.

    A catalog table is identified by its name, any other source by its format and its location.
    """
    leaves = [leaf for plan in plans for leaf in scala_items(plan.collectLeaves())]
    return tuple(_name(leaf) for leaf in leaves if class_name(leaf) in {_CATALOG_RELATION, _RELATION})


def order_of(offsets: Sequence[Any], names: Sequence[str], tables: Mapping[str, Any]) -> list[str]:
    """Return the order of the sources in *names* in a checkpoint that does not store it, from its *offsets*.

    *tables* are Iceberg tables by name. The offset of a table contains a snapshot id, which only this table
    has.
    """
    order, rest = list[str | None](), list(names)
    for offset in offsets:
        snapshot = offset.get("snapshot_id", -1) if isinstance(offset, dict) else -1
        owner = next((name for name in rest if _has(tables.get(name), snapshot)), None)
        order.append(owner)
        if owner is not None:
            rest.remove(owner)
    if len(order) != len(names):
        return list(names)
    return [rest.pop(0) if name is None else name for name in order]


def _has(table: Any, snapshot: int) -> bool:
    return table is not None and snapshot >= 0 and table.snapshot(snapshot) is not None


def _name(leaf: Any) -> str:
    if class_name(leaf) == _RELATION:
        options = leaf.dataSource().options()
        return _placed(leaf, [(place, options.get(place)) for place in _PLACES if options.contains(place)])
    if not leaf.identifier().isDefined():
        options = leaf.extraOptions()
        return _placed(leaf, [(place, options.get(place)) for place in _PLACES if options.containsKey(place)])
    identifier = leaf.identifier().get()
    catalog = [str(leaf.catalog().get().name())] if leaf.catalog().isDefined() else []
    return display_name((*catalog, *map(str, identifier.namespace()), str(identifier.name())))


def _placed(leaf: Any, places: Sequence[tuple[str, Any]]) -> str:
    return " ".join([str(leaf.sourceName()), *(f"{name} {place}" for name, place in places)])
