"""Statements about compiled plans (FLIP-190, FLIP-292), each as an object with the URI of the plan's file."""

from __future__ import annotations

from dataclasses import dataclass

from mt_core.sql.catalog import CatalogStatement, statement_at


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilePlan(CatalogStatement):
    """COMPILE [AND EXECUTE] PLAN 'uri' [IF NOT EXISTS] FOR statement.

    The INSERT or STATEMENT SET begins at offset `start`. AND EXECUTE also executes the plan; if the plan
    exists already, it is executed and not compiled again.
    """

    uri: str
    start: int
    if_not_exists: bool = False
    execute: bool = False

    def statement_in(self, text: str) -> str:
        """Return the compiled statement within *text*, padded with blanks to keep its positions."""
        return statement_at(text, self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutePlan(CatalogStatement):
    """EXECUTE PLAN 'uri'."""

    uri: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainPlan(CatalogStatement):
    """EXPLAIN PLAN 'uri'."""

    uri: str
