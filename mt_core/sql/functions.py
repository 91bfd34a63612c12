"""Statements about functions, each as an immutable object."""

from __future__ import annotations

from dataclasses import dataclass

from mt_core.model.function import CreatedFunction
from mt_core.sql.catalog import CatalogStatement


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateFunction(CatalogStatement):
    """CREATE [OR REPLACE] [TEMPORARY [SYSTEM]] FUNCTION [IF NOT EXISTS] name ….

    The content of the function's files has not been read yet.
    """

    function: CreatedFunction
    temporary: bool = False
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterFunction(CatalogStatement):
    """ALTER FUNCTION [IF EXISTS] name …, with the clauses of CREATE FUNCTION, all of which it replaces."""

    function: CreatedFunction
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropFunction(CatalogStatement):
    """DROP [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS] name; `text` is the whole statement."""

    name: str
    text: str
    temporary: bool = False
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCreateFunction(CatalogStatement):
    """SHOW CREATE FUNCTION name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeFunction(CatalogStatement):
    """DESC[RIBE] FUNCTION [EXTENDED] name; `text` is the whole statement."""

    name: str
    text: str
    extended: bool = False
