"""The rows of SHOW … EXTENDED, even from gateways that predate EXTENDED."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mt_core.errors import GatewayError, SqlSyntaxError


def extended_rows(
    rows: Callable[[str], Sequence[Mapping[str, Any]]], statement: str, rest: str = ""
) -> Sequence[Mapping[str, Any]]:
    """Return the rows of *statement* EXTENDED *rest*, which *rows* runs.

    A gateway that predates EXTENDED rejects it as a syntax error. Without it, its SHOW returns nearly all
    columns.
    """
    try:
        return rows(f"{statement} EXTENDED{rest}")
    except GatewayError as error:
        if error.code != SqlSyntaxError.code:
            raise
        return rows(f"{statement}{rest}")
