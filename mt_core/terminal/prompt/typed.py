"""The typed text: whether it is complete, and its pieces for syntax colours."""

from __future__ import annotations

from dataclasses import dataclass

from mt_core.base.tokens import TokenKind, split_statements, tokenize
from mt_core.errors import SqlSyntaxError
from mt_core.terminal.prompt.keywords import KEYWORDS

BACKSLASH = "\\"
EDIT, SET = r"\e", r"\set"
# Commands without a backslash, as in Flink's client. No statement starts with one of these words.
WORDS = frozenset({"HELP", "QUIT", "EXIT", "SOURCE", "CLEAR"})
KEYWORD = "keyword"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of the input with one style.

    `look` is `keyword`, a token kind in lower case, or empty between tokens.
    """

    text: str
    look: str


def is_whole(text: str) -> bool:
    """Return whether *text* is complete: a command, a comment, or statements that all end with `;`."""
    if is_command(text) or edited_part(text) is not None:
        return True
    try:
        return all(statement.terminated for statement in split_statements(text))
    except SqlSyntaxError:
        # A quote, comment or block is still open.
        return False


def is_command(text: str) -> bool:
    """Return whether *text* begins with a command, which ends at the end of its line."""
    words = text.split(maxsplit=1)
    return bool(words) and (words[0].startswith(BACKSLASH) or words[0].rstrip(";").upper() in WORDS)


def command_parts(line: str) -> tuple[str, str]:
    """Return the name of the command on *line* and its argument.

    The argument has no surrounding blanks or semicolons.
    """
    name, *more = line.split(maxsplit=1)
    return name, more[0].strip().rstrip(";").rstrip() if more else ""


def key_and_value(argument: str) -> tuple[str, str]:
    r"""Return the key and the value of a `\set` command. Each is empty if it is omitted."""
    key, *more = argument.split(maxsplit=1) or [""]
    return key, more[0].removeprefix("=").strip() if more else ""


def edited_part(text: str) -> str | None:
    r"""Return the text to edit, which precedes a last line `\e`, or None if there is no such line."""
    before, _, last = text.rstrip().rpartition("\n")
    return before if last.strip() == EDIT else None


def pieces(text: str) -> list[Piece]:
    """Split *text* into styled pieces. Joined together, they are the text.

    The text after an unterminated quote is styled as a string.
    """
    parts, end = list[Piece](), 0
    try:
        for token in tokenize(text):
            if token.start > end:
                parts.append(Piece(text=text[end : token.start], look=""))
            look = KEYWORD if token.keyword in KEYWORDS else token.kind.value.lower()
            parts.append(Piece(text=token.text, look=look))
            end = token.end
    except SqlSyntaxError:
        begun = end + len(text[end:]) - len(text[end:].lstrip())
        opened = TokenKind.COMMENT if text.startswith("/*", begun) else TokenKind.STRING
        parts.append(Piece(text=text[end:begun], look=""))
        parts.append(Piece(text=text[begun:], look=opened.value.lower()))
        end = len(text)
    if end < len(text):
        parts.append(Piece(text=text[end:], look=""))
    return [piece for piece in parts if piece.text]
