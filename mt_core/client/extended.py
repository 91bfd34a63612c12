"""The rows of SHOW … EXTENDED, also of a gateway that is too old to know the word."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mt_core.errors import GatewayError, SqlSyntaxError


def extended_rows(
    rows: Callable[[str], Sequence[Mapping[str, Any]]], statement: str, rest: str = ""
) -> Sequence[Mapping[str, Any]]:
    """Return what *rows* reads by *statement*, EXTENDED and *rest*.

    A gateway from before EXTENDED refuses it as a syntax error, and has nearly all of its columns without it.
    """
    try:
        return rows(f"{statement} EXTENDED{rest}")
    except GatewayError as error:
        if error.code != SqlSyntaxError.code:
            raise
        return rows(f"{statement}{rest}")
