"""The position of an error in its statement, and the two parts of its message: problem and remedy."""

from __future__ import annotations

import re

from rich.cells import cell_len, set_cell_size

from mt_core.base.secrets import statement_text
from mt_core.base.tokens import tokenize
from mt_core.errors import MtError, SqlSyntaxError

_INDENT = "  "
# Marks the place at which a line wider than the screen is cut.
_CUT = "…"
# Quoted and bracketed texts are skipped when looking for the end of the first part. An apostrophe within a
# word is not a quote.
_QUOTED = r"(?<!\w)'[^']*' | \"[^\"]*\" | `[^`]*` | \([^()]*\)"
_SEMICOLON = re.compile(rf"(?:{_QUOTED} | [^;] | ;(?!\s))*+ (?P<end>;\s)", re.VERBOSE | re.DOTALL)
_SENTENCE = re.compile(rf"(?:{_QUOTED} | [^.] | \.(?!\s))*+ (?P<end>\.\s)", re.VERBOSE | re.DOTALL)
_PLACE = re.compile(r" \(line [0-9]+, (?:column|position) [0-9]+\)$")
_SPARKS = re.compile(r"\[[A-Z][A-Z0-9_.]*\] ")


def place_of(error: MtError, statement: str, width: int) -> list[str]:
    """Return the line of *statement* that *error* names and a line with a caret under the token.

    Both fit in *width* columns. The result is empty if *error* names no line. A position outside *statement*
    belongs to another text and is ignored. A line with a secret is not shown.
    """
    line, column = error.facts.get("line"), error.facts.get("column")
    if not isinstance(line, int) or not isinstance(column, int):
        return []
    at = column - 1
    lines = statement.split("\n")
    if not 1 <= line <= len(lines) or not 0 <= at <= len(lines[line - 1]):
        return []
    if statement_text(statement, len(statement)).split("\n")[line - 1 : line] != [lines[line - 1]]:
        return []
    text = lines[line - 1].rstrip("\r")
    start = sum(len(each) + 1 for each in lines[: line - 1]) + at
    carets = max(1, cell_len(text[at : at + _token_length(statement, start)]))
    return _fitted(text.replace("\t", " "), at, carets, width)


def _token_length(statement: str, start: int) -> int:
    """Return the length of the token at offset *start*, or 1 if no token begins there."""
    try:
        for token in tokenize(statement):
            if token.end > start:
                return token.end - start if token.start <= start else 1
    except SqlSyntaxError:
        # The statement has an unterminated quote.
        pass
    return 1


def _fitted(text: str, at: int, carets: int, width: int) -> list[str]:
    """Return *text* and its caret line, cut on both sides to fit *width* columns."""
    room = max(width - len(_INDENT) - 2 * len(_CUT), 10)
    before, cut = text[:at], ""
    while cell_len(before) > room // 2 and cell_len(text) > room:
        before, cut = before[1:], _CUT
    shown = cut + before + text[at:]
    if cell_len(shown) > room:
        shown = set_cell_size(shown, room) + _CUT
    column = cell_len(cut + before)
    return [_INDENT + shown, _INDENT + " " * column + "^" * max(1, min(carets, room - column))]


def without_place(message: str) -> str:
    """Return *message* without the line and column that our error messages end with."""
    return _PLACE.sub("", message)


def parted(message: str) -> tuple[str, str]:
    """Return the problem and the remedy, which may be empty.

    In our messages, a semicolon separates the two. In Spark's messages, the remedy is all sentences after the
    first.
    """
    end = (_SENTENCE if _SPARKS.match(message) else _SEMICOLON).match(message)
    if end is None:
        return message, ""
    what, way_out = message[: end.start("end")], message[end.end("end") :].strip()
    return f"{what}.", way_out[:1].upper() + way_out[1:]
