"""A client's session: how it was opened, and what statements have given it since, which is lost with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_COMMENTS = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_CHANGES = re.compile(
    _COMMENTS
    + r"""(
        (?:SET|RESET) (?:\s+ (?:'[^']*' | [^\s=;']+) )*
      | USE \b [^;]*
      | CREATE \s+ (?:OR\s+REPLACE\s+)? (?:GLOBAL\s+)? TEMP(?:ORARY)? \s+ (?:SYSTEM\s+)? \w+ \s+ (?:IF\s+NOT\s+EXISTS\s+)? [^\s(;]+
      | DROP \s+ TEMP(?:ORARY)? \s+ \w+ \s+ [^;]*
      | (?:ADD|REMOVE) \s+ (?:JAR|FILE|ARCHIVE)S? \b [^;]*
      | CACHE \s+ (?:LAZY\s+)? TABLE \s+ [^\s(;]+
      | DECLARE \s+ (?:OR\s+REPLACE\s+)? (?:VAR\w*\s+)? [^\s;]+
    )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a session was opened, and is opened again: its properties, and statements that run first."""

    name: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    setup: tuple[str, ...] = ()


def session_change(statement: str) -> str | None:
    """Return what *statement* changes in its session, in its own words and without values of SET; None for nothing."""
    match = _CHANGES.match(statement)
    return " ".join(match[1].split())[:_SHOWN] if match else None
