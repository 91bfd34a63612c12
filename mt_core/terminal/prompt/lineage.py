"""The lineage of a materialized table: its source tables, views and functions, as a tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.markup import escape
from rich.tree import Tree

from mt_core.base.tokens import TokenKind, significant
from mt_core.errors import GatewayError

Rows = Callable[[str], Sequence[Mapping[str, Any]]]
# The format of DESCRIBE EXTENDED: `lake.shop.orders (table, version 12); lake.shop.rates (view, version ab)`.
_SOURCE = re.compile(r"(?P<name>(?:`(?:[^`]|``)*`|[^`;(])+) \((?P<kind>\w+), (?P<version>[^)]*)\)(?:; |$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source of a materialized table, at the version that the last refresh read."""

    name: str
    kind: str
    version: str


def sources_of(text: str) -> list[Source]:
    """Return the sources in the `sources` row of DESCRIBE EXTENDED.

    The row is empty before the first refresh.
    """
    return [Source(**match.groupdict()) for match in _SOURCE.finditer(text)]


def lineage(table: str, rows: Rows) -> Tree:
    """Return the source tree of *table*. *rows* runs a statement and returns its rows.

    The sources of a table are expanded only once, even if several tables read it or if it depends on itself.
    Raises GatewayError if the table does not exist.
    """
    facts = _facts(table, rows)
    name = facts.get("identifier", table)
    tree = Tree(escape(_title(name, facts)))
    _grow(tree, facts, rows, {name: facts})
    return tree


def _grow(tree: Tree, facts: Mapping[str, str], rows: Rows, described: dict[str, Mapping[str, str]]) -> None:
    """Add the sources in *facts* to *tree*, and their own sources unless they are *described* already."""
    for source in sources_of(facts.get("sources", "")):
        again = source.name in described
        below = described[source.name] if again else _below(source, rows)
        described[source.name] = below
        label = _title(source.name, below) if below else f"{source.name} ({source.kind}, {source.version})"
        has_branch = again and sources_of(below.get("sources", ""))
        branch = tree.add(escape(f"{label} (its sources: above)" if has_branch else label))
        if below and not again:
            _grow(branch, below, rows, described)


def _below(source: Source, rows: Rows) -> Mapping[str, str]:
    """Return the facts of a source that is a materialized table, or nothing for any other source."""
    if source.kind != "table" or not _can_be_named(source.name):
        return {}
    try:
        facts = _facts(source.name, rows)
    except GatewayError:
        # The table was dropped since, or this session cannot see it. It is still a source.
        return {}
    return facts if "refresh mode" in facts else {}


def _can_be_named(name: str) -> bool:
    """Return whether *name* is valid in a statement. A path such as `s3://bucket/t` is not."""
    return all(
        token.kind in {TokenKind.WORD, TokenKind.IDENTIFIER} or token.text == "."
        for token in significant(name)
    )


def _title(name: str, facts: Mapping[str, str]) -> str:
    facts_shown = [
        f"{key} {facts[key]}"
        for key in ("freshness", "stale for", "late by")
        if facts.get(key) not in {None, "no"}
    ]
    return f"{name}: {', '.join(facts_shown)}" if facts_shown else name


def _facts(table: str, rows: Rows) -> dict[str, str]:
    described = [list(row.values())[:2] for row in rows(f"DESCRIBE EXTENDED {table}")]
    start = next(
        (number for number, (key, _) in enumerate(described) if key == "# Materialized table"), len(described)
    )
    return {str(key): str(value) for key, value in described[start + 1 :]}
