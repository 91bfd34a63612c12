"""Temporary connector tables as targets of streams."""

from __future__ import annotations

from collections.abc import Iterable

from mt_core.sql.catalog import CreateConnectorTable
from mt_core.sql.parser import ReadStatement


def temporary_tables(temporary: Iterable[str]) -> dict[str, CreateConnectorTable]:
    """Return the connector tables that the statements in *temporary* create, by lower-case name."""
    facts = (ReadStatement(text).fact for text in temporary)
    return {fact.name[-1].lower(): fact for fact in facts if isinstance(fact, CreateConnectorTable)}
