"""The parser: the text of a statement in; its type, its traits and, if it is one of ours, its fact out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import dropwhile, takewhile

from mt_core.errors import SqlSyntaxError
from mt_core.sql.catalog import CatalogStatement
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.kinds import Trait, reader_of, traits_of
from mt_core.sql.statement_types import type_of
from mt_core.sql.statements import Statement
from mt_core.tokens import Token, TokenKind, significant, split_statements

HEAD = 12


class ReadStatement:
    """A statement as it was sent, read once: what is asked of it is found out when it is first asked, and kept.

    Its type and traits are told by its first words; of a text that goes to Spark as it is, no more is cut into tokens.
    """

    def __init__(self, sent: str) -> None:
        self.sent = sent

    @cached_property
    def head(self) -> tuple[Token, ...]:
        """The first tokens but for comments, a dozen at most, and only as far as the text can be read."""
        return tuple(_head(self.sent))

    @property
    def type(self) -> str:
        """The type as FLIP-91 names it, such as SELECT or SHOW_TABLES; empty for a text without words."""
        return self._type_and_verb[0]

    @property
    def verb_offset(self) -> int:
        """Where the word stands that says what is done, which WITH … has behind it."""
        return self._type_and_verb[1]

    @cached_property
    def traits(self) -> frozenset[Trait]:
        return traits_of(self.type)

    @cached_property
    def text(self) -> str:
        """The one statement without its semicolon; raises SqlSyntaxError when there are none or several.

        Comments before it stay, so that the line and column of an error are those of the text that was sent.
        """
        statements = split_statements(self.sent)
        if not statements:
            raise SqlSyntaxError('SQL parse failed. Encountered "<EOF>": the statement is empty.')
        if len(statements) > 1:
            raise SqlSyntaxError(
                f"Only a single statement can be submitted at a time, but there are {len(statements)}."
            )
        start, end = statements[0].start, statements[0].start + len(statements[0].text)
        return self.sent[start:end] if ";" in self.sent[:start] else self.sent[:end]

    @cached_property
    def fact(self) -> Statement | CatalogStatement | None:
        """The statement of ours, None if it is Spark's; raises what `parse` raises."""
        return _read(self.text, self.head)

    @cached_property
    def _type_and_verb(self) -> tuple[str, int]:
        return type_of(self.sent, self.head)


def parse(text: str) -> Statement | CatalogStatement | None:
    """Return the statement of ours in *text* (one statement), None if it is Spark's.

    Raises SqlSyntaxError naming what stands where and what was expected, DefinitionInvalid or Unsupported.
    """
    return _read(text, _head(text))


def parse_name(text: str) -> tuple[str, ...]:
    """Return the parts of a name that stands alone, such as cat.`my schema`.t; raises SqlSyntaxError."""
    cursor = TokenCursor(text)
    name = cursor.name()
    cursor.expect_end("the end of the name")
    return name


def _read(text: str, head: Sequence[Token]) -> Statement | CatalogStatement | None:
    words = [token.keyword for token in takewhile(lambda token: token.kind is TokenKind.WORD, head)]
    found = reader_of(words)
    if found is None:
        return None
    reader, begin = found
    cursor = TokenCursor(text)
    cursor.expect(*begin)
    return reader(cursor, text)


def _head(text: str) -> list[Token]:
    found: list[Token] = []
    try:
        for token in dropwhile(lambda token: token.text == ";", significant(text)):
            if token.text == ";" or len(found) == HEAD:
                break
            found.append(token)
    except SqlSyntaxError:
        return found
    return found
