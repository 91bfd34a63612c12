"""The queries of the fake engine: `SELECT *` or columns, `FROM` a single source."""

from __future__ import annotations

import re

from mt_core.errors import QueryFailed
from mt_core.model.table import Column
from mt_core.tables.engine import Query
from tests.support.fake_tables import FakeSource

_SELECT = re.compile(r"(?is)^\s*select\s+(?P<columns>\*|[\w`, ]+)\s+from\s+(?P<name>[\w.`]+)\s*$")


def parsed(query: Query) -> re.Match[str]:
    """Return a match with the groups `columns` and `name` of the text."""
    match = _SELECT.match(query.text)
    if match is None:
        raise QueryFailed(
            "the fake engine reads SELECT * FROM source alone", error_class="PARSE_SYNTAX_ERROR"
        )
    return match


def full_source(query: Query) -> str:
    """Return the full name of the single table or view that *query* names."""
    name = parsed(query)["name"].replace("`", "")
    return name if name.count(".") == 2 else f"{query.catalog}.{'.'.join(query.namespace)}.{name}"


def selected(query: Query, source: FakeSource) -> tuple[Column, ...]:
    """Return the columns of *query* in order."""
    listed = parsed(query)["columns"]
    if listed == "*":
        return source.columns
    known = {column.name.lower(): column for column in source.columns}
    names = [name.strip().strip("`") for name in listed.split(",")]
    for name in names:
        if name.lower() not in known:
            raise QueryFailed(
                f"column {name} cannot be resolved", error_class="UNRESOLVED_COLUMN.WITH_SUGGESTION"
            )
    return tuple(known[name.lower()] for name in names)
