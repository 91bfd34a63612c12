"""Recognizes the statements whose effect ends with their session, such as SET and USE."""

from __future__ import annotations

import re

_COMMENTS = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_CHANGES = re.compile(
    _COMMENTS
    + r"""(
        (?:SET|RESET) (?:\s+ (?:'[^']*' | [^\s=;']+) )*
      | USE \b [^;]*
      | CREATE \s+ (?:OR\s+REPLACE\s+)? (?:GLOBAL\s+)? TEMP(?:ORARY)? \s+ (?:SYSTEM\s+)? \w+ \s+
        (?:IF\s+NOT\s+EXISTS\s+)? [^\s(;]+
      | DROP \s+ TEMP(?:ORARY)? \s+ \w+ \s+ [^;]*
      | (?:ADD|REMOVE) \s+ (?:JAR|FILE|ARCHIVE)S? \b [^;]*
      | CACHE \s+ (?:LAZY\s+)? TABLE \s+ [^\s(;]+
      | DECLARE \s+ (?:OR\s+REPLACE\s+)? (?:VAR\w*\s+)? [^\s;]+
    )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_SHOWN = 80


def session_change(statement: str) -> str | None:
    """Return the part of *statement* that changes the session, without the values of SET.

    Return None if the statement changes nothing.
    """
    match = _CHANGES.match(statement)
    return " ".join(match[1].split())[:_SHOWN] if match else None
