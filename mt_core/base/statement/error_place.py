"""The position of an error in its statement, and the parts of its message, such as its remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mt_core.base.secrets import statement_text
from mt_core.base.tokens import tokenize
from mt_core.errors import MtError, SqlSyntaxError

# Quoted and bracketed texts are skipped when looking for the end of the first part. An apostrophe within a
# word is not a quote.
_QUOTED = r"(?<!\w)'[^']*' | \"[^\"]*\" | `[^`]*` | \([^()]*\)"
_SEMICOLON = re.compile(rf"(?:{_QUOTED} | [^;] | ;(?!\s))*+ (?P<end>;\s)", re.VERBOSE | re.DOTALL)
_SENTENCE = re.compile(rf"(?:{_QUOTED} | [^.] | \.(?!\s))*+ (?P<end>\.\s)", re.VERBOSE | re.DOTALL)
_PLACE = re.compile(r" \(line [0-9]+, (?:column|position) [0-9]+\)$")
_SPARKS = re.compile(r"\[[A-Z][A-Z0-9_.]*\] ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPlace:
    """The token that an error names: `text` is its line, `number` counts lines from 1.

    The token is `length` characters from `at`, which may be the end of the line.
    """

    number: int
    text: str
    at: int
    length: int


def place_in(error: MtError, statement: str) -> ErrorPlace | None:
    """Return the place in *statement* that *error* names, or None if it names none.

    A position outside *statement* belongs to another text and is ignored. A line with a secret is not shown.
    """
    line, column = error.facts.get("line"), error.facts.get("column")
    if not isinstance(line, int) or not isinstance(column, int):
        return None
    at = column - 1
    lines = statement.split("\n")
    if not 1 <= line <= len(lines) or not 0 <= at <= len(lines[line - 1]):
        return None
    if statement_text(statement, len(statement)).split("\n")[line - 1 : line] != [lines[line - 1]]:
        return None
    start = sum(len(each) + 1 for each in lines[: line - 1]) + at
    text = lines[line - 1].rstrip("\r")
    return ErrorPlace(number=line, text=text, at=at, length=_token_length(statement, start))


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


def first_sentence(message: str) -> str:
    """Return the first sentence of *message* without its full stop, and without Spark's code before it."""
    text = _SPARKS.sub("", message, count=1) if _SPARKS.match(message) else message
    end = _SENTENCE.match(text)
    return text.removesuffix(".") if end is None else text[: end.start("end")]
