"""What a person has typed so far: whether it is whole, and the pieces that have a colour."""

from __future__ import annotations

from dataclasses import dataclass

from mt_core.base.tokens import TokenKind, split_statements, tokenize
from mt_core.errors import SqlSyntaxError
from mt_core.terminal.prompt.keywords import KEYWORDS

BACKSLASH = "\\"
EDIT, SET = r"\e", r"\set"
# Commands without a backslash, as in Flink's client; no statement begins with one of these.
WORDS = frozenset({"HELP", "QUIT", "EXIT", "SOURCE", "CLEAR"})
KEYWORD = "keyword"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of a text with one look: `look` is `keyword`, the kind of a token in lower case,
    or empty for what is between.
    """

    text: str
    look: str


def is_whole(text: str) -> bool:
    """Return whether *text* can run: a command, or statements that all have their semicolons;
    a text of comments is whole.
    """
    if is_command(text) or edited_part(text) is not None:
        return True
    try:
        return all(statement.terminated for statement in split_statements(text))
    except SqlSyntaxError:
        # A quote, a comment or a block is open: there is more to come.
        return False


def is_command(text: str) -> bool:
    """Return whether *text* begins with a command, which ends with its line."""
    words = text.split(maxsplit=1)
    return bool(words) and (words[0].startswith(BACKSLASH) or words[0].rstrip(";").upper() in WORDS)


def command_parts(line: str) -> tuple[str, str]:
    """Return the name of the command that *line* is, and what follows it, without blanks
    and semicolons around that.
    """
    name, *more = line.split(maxsplit=1)
    return name, more[0].strip().rstrip(";").rstrip() if more else ""


def key_and_value(argument: str) -> tuple[str, str]:
    r"""Return the key and the value that `\set` has been given, each empty if it is left out."""
    key, *more = argument.split(maxsplit=1) or [""]
    return key, more[0].removeprefix("=").strip() if more else ""


def edited_part(text: str) -> str | None:
    r"""Return what stands before a last line `\e`, which is to be edited;
    None for a text that ends otherwise.
    """
    before, _, last = text.rstrip().rpartition("\n")
    return before if last.strip() == EDIT else None


def pieces(text: str) -> list[Piece]:
    """Return *text* as pieces; joined, they are the text.

    What follows a quote that is open looks like the inside of a quote.
    """
    found, end = list[Piece](), 0
    try:
        for token in tokenize(text):
            if token.start > end:
                found.append(Piece(text=text[end : token.start], look=""))
            look = KEYWORD if token.keyword in KEYWORDS else token.kind.value.lower()
            found.append(Piece(text=token.text, look=look))
            end = token.end
    except SqlSyntaxError:
        begun = end + len(text[end:]) - len(text[end:].lstrip())
        opened = TokenKind.COMMENT if text.startswith("/*", begun) else TokenKind.STRING
        found.append(Piece(text=text[end:begun], look=""))
        found.append(Piece(text=text[begun:], look=opened.value.lower()))
        end = len(text)
    if end < len(text):
        found.append(Piece(text=text[end:], look=""))
    return [piece for piece in found if piece.text]
