"""The parser: from the text of a statement to its type, its traits and its parsed form."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import dropwhile, takewhile

from mt_core.base.tokens import Token, TokenKind, check_nesting, significant, split_statements
from mt_core.errors import SqlSyntaxError
from mt_core.model.stream import SourceHint
from mt_core.sql.catalog import CatalogStatement, Explain
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.hints import HintedText, without_hints
from mt_core.sql.kinds import Trait, reader_of, traits_of
from mt_core.sql.statement_types import type_of
from mt_core.sql.statements import Statement

HEAD = 12


class ReadStatement:
    """A statement as the client sent it. Each property is computed on first use and cached.

    The first words determine the type and the traits. A statement for Spark is not tokenized beyond them.
    """

    def __init__(self, sent: str) -> None:
        self.sent = sent

    @cached_property
    def head(self) -> tuple[Token, ...]:
        """The first tokens, without comments: at most 12, and none after an invalid token."""
        head: list[Token] = []
        with suppress(SqlSyntaxError):
            for token in dropwhile(lambda token: token.text == ";", significant(self.sent)):
                if token.text == ";" or len(head) == HEAD:
                    break
                head.append(token)
        return tuple(head)

    @property
    def type(self) -> str:
        """The type in FLIP-91's style, such as SELECT or SHOW_TABLES; empty if the SQL has no words."""
        return self._type_and_verb[0]

    @property
    def verb_offset(self) -> int:
        """The offset of the verb, after any common table expressions (WITH …)."""
        return self._type_and_verb[1]

    @cached_property
    def traits(self) -> frozenset[Trait]:
        return traits_of(self.type)

    @property
    def text(self) -> str:
        """The single statement, with blanks in place of its table hints.

        Raises the errors of `written` and `hints`.
        """
        return self._without_hints.text

    @property
    def hints(self) -> tuple[SourceHint, ...]:
        """The OPTIONS hints after table names, with positions in `text`. Raises SqlSyntaxError."""
        return self._without_hints.hints

    @cached_property
    def written(self) -> str:
        """The single statement without its semicolon.

        Comments before it remain, so that lines and columns in errors refer to the text that the client sent.
        Raises SqlSyntaxError if there is no statement, if there are several, or if the statement nests too
        deeply.
        """
        statements = split_statements(self.sent)
        if not statements:
            raise SqlSyntaxError('SQL parse failed. Encountered "<EOF>": the statement is empty.')
        if len(statements) > 1:
            raise SqlSyntaxError(
                f"Only a single statement can be submitted at a time, but there are {len(statements)}."
            )
        check_nesting(self.sent)
        start, end = statements[0].start, statements[0].start + len(statements[0].text)
        return self.sent[start:end] if ";" in self.sent[:start] else self.sent[:end]

    @cached_property
    def fact(self) -> Statement | CatalogStatement | None:
        """The parsed statement, or None if the statement is Spark's.

        Raises SqlSyntaxError with the position, the token there and what was expected. Raises
        DefinitionInvalid or Unsupported for statements that are parsed but not accepted.
        """
        fact = _read(self.text, self.head)
        # The hints of the inner statement are read when that statement is parsed.
        return replace(fact, statement=fact.statement_in(self.written)) if isinstance(fact, Explain) else fact

    @cached_property
    def _without_hints(self) -> HintedText:
        return without_hints(self.written)

    @cached_property
    def _type_and_verb(self) -> tuple[str, int]:
        return type_of(self.sent, self.head)


def parse(text: str) -> Statement | CatalogStatement | None:
    """Return the single statement *text* in its parsed form, or None if it is Spark's.

    Raises the errors of `ReadStatement.fact`.
    """
    return _read(text, ReadStatement(text).head)


def parse_name(text: str) -> tuple[str, ...]:
    """Return the parts of the name *text*, such as cat.`my schema`.t. Raises SqlSyntaxError."""
    cursor = TokenCursor(text)
    name = cursor.name()
    cursor.expect_end("the end of the name")
    return name


def _read(text: str, head: Sequence[Token]) -> Statement | CatalogStatement | None:
    words = [token.keyword for token in takewhile(lambda token: token.kind is TokenKind.WORD, head)]
    reader, first_words = reader_of(words)
    if reader is None:
        return None
    cursor = TokenCursor(text)
    cursor.expect(*first_words)
    try:
        return reader(cursor, text)
    except RecursionError as cause:
        raise cursor.refusal("types nest too deeply up to here") from cause
