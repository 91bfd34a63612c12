"""Session variables in texts that are analysed without their session: its errors only say that there is no such column."""

from __future__ import annotations

from collections.abc import Callable
from itertools import dropwhile

from mt_core.errors import QueryFailed
from mt_core.tokens import significant

_ERRORS = ("UNRESOLVED_COLUMN", "NOT_A_CONSTANT_STRING")
_SCHEMAS = {(), ("session",), ("system", "session")}


def variable_at(text: str, error: QueryFailed, has_variable: Callable[[str], bool]) -> str | None:
    """Return the name of the variable of the session at the place in *text* that *error* points to; None if there is none."""
    if error.line is None or error.position is None or not (error.error_class or "").startswith(_ERRORS):
        return None
    place, parts = (error.line, error.position), list[str]()
    tokens = dropwhile(lambda token: (token.line, token.column) < place, significant(text))
    for token in tokens:
        parts.append(token.value)
        following = next(tokens, None)
        if following is None or following.text != ".":
            break
    *schema, name = parts or [""]
    return name if tuple(map(str.lower, schema)) in _SCHEMAS and has_variable(name) else None
