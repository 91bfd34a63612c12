"""The rows of SHOW … EXTENDED, also from gateways that predate the keyword."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mt_core.errors import GatewayError, SqlSyntaxError


def extended_rows(
    rows: Callable[[str], Sequence[Mapping[str, Any]]], statement: str, rest: str = ""
) -> Sequence[Mapping[str, Any]]:
    """Return the rows of *statement* EXTENDED *rest*, read by *rows*.

    A gateway that predates EXTENDED rejects it as a syntax error; its SHOW has nearly all columns without it.
    """
    try:
        return rows(f"{statement} EXTENDED{rest}")
    except GatewayError as error:
        if error.code != SqlSyntaxError.code:
            raise
        return rows(f"{statement}{rest}")
