"""A cursor over the tokens of one statement: it takes what is expected, or says what stands there instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from mt_core.errors import SqlSyntaxError
from mt_core.model.partition_values import PartitionValues, ValueRange
from mt_core.tokens import Lines, Token, TokenKind, end_of_statement, significant


class Cursor:
    """Reads a statement from left to right, without its comments and the semicolons at its end.

    Tokens are made as they are looked at: what follows the last one is never read.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[Token] = []
        self._rest = significant(text)
        self._next = 0

    def peek(self, ahead: int = 0) -> Token | None:
        """Return the token *ahead* of the next one, None behind the end."""
        index = self._next + ahead
        while index >= len(self._tokens):
            if not (more := self._read_on()):
                return None
            self._tokens += more
        return self._tokens[index]

    def _read_on(self) -> list[Token]:
        """Return the next token, with all semicolons that lead up to it; none at the end."""
        found: list[Token] = []
        for token in self._rest:
            found.append(token)
            if token.text != ";":
                return found
        return []

    def keyword(self, ahead: int = 0) -> str:
        """Return the word *ahead* in capitals, empty if there is none."""
        token = self.peek(ahead)
        return token.keyword if token else ""

    def at_symbol(self, symbol: str) -> bool:
        token = self.peek()
        return token is not None and token.kind is TokenKind.SYMBOL and token.text == symbol

    @property
    def at_end(self) -> bool:
        return self.peek() is None

    def take(self) -> Token | None:
        """Return the next token and go on."""
        token = self.peek()
        self._next += 1
        return token

    def accept(self, *words: str) -> bool:
        """Go past *words* if all of them come next, else stay; return which it was."""
        if any(self.keyword(ahead) != word for ahead, word in enumerate(words)):
            return False
        self._next += len(words)
        return True

    def accept_symbol(self, symbol: str) -> bool:
        if not self.at_symbol(symbol):
            return False
        self._next += 1
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.accept(word):
                raise self.error(word)

    def expect_symbol(self, symbol: str) -> None:
        if not self.accept_symbol(symbol):
            raise self.error(symbol)

    def expect_end(self, expected: str = "the end of the statement") -> None:
        if not self.at_end:
            raise self.error(expected)

    def error(self, expected: str, *, ahead: int = 0) -> SqlSyntaxError:
        """Return the error that says what stands here instead of *expected*."""
        return self.refusal(f"expected {expected}", ahead=ahead)

    def refusal(self, reason: str, *, ahead: int = 0) -> SqlSyntaxError:
        """Return a syntax error at the next token, with the *reason* why it does not fit."""
        token = self.peek(ahead)
        if token is None:
            line, column = Lines(self._text).locate(len(self._text))
            return SqlSyntaxError(f'Encountered "<EOF>"; {reason}', line=line, column=column)
        return SqlSyntaxError(f'Encountered "{token.text}"; {reason}', line=token.line, column=token.column)

    def identifier(self, what: str) -> str:
        token = self.peek()
        if token is None or token.kind not in {TokenKind.WORD, TokenKind.IDENTIFIER} or not token.value:
            raise self.error(what)
        self._next += 1
        return token.value

    def name(self, what: str = "the name of a materialized table") -> tuple[str, ...]:
        """Read a name with its qualifiers, such as catalog.`my schema`.t."""
        parts = [self.identifier(what)]
        while self.accept_symbol("."):
            parts.append(self.identifier("the next part of the name"))
        return tuple(parts)

    def string(self, what: str) -> str:
        token = self.peek()
        if token is None or token.kind is not TokenKind.STRING:
            raise self.error(what)
        self._next += 1
        return token.value

    def entries(self, item: Callable[[], None], what: str, *, empty: bool = False) -> None:
        """Read `( item, … )`; *empty* allows `()`."""
        if not self.accept_symbol("("):
            raise self.error(f"( before {what}")
        if empty and self.accept_symbol(")"):
            return
        item()
        while self.accept_symbol(","):
            item()
        if not self.accept_symbol(")"):
            raise self.error(f", or ) after {what}")

    def properties(self) -> Mapping[str, str]:
        """Read `('key' = 'value', …)`; a key given twice is refused."""
        found: dict[str, str] = {}

        def item() -> None:
            if (token := self.peek()) and token.value in found and token.kind is TokenKind.STRING:
                raise self.refusal(f"option '{token.value}' is given twice")
            key = self.string("an option key in quotes")
            self.expect_symbol("=")
            found[key] = self.string(f"the value of option '{key}' in quotes")

        self.entries(item, "the options", empty=True)
        return found

    def partition_spec(self) -> Mapping[str, str]:
        """Read `(column = 'value', …)` and nothing more."""
        found: dict[str, str] = {}
        for column, values in self.partition().items():
            if not isinstance(values, str):
                raise self.refusal(f"partition column {column} takes one value here")
            found[column] = values
        return found

    def partition(self) -> Mapping[str, PartitionValues]:
        """Read `(column = 'value', …)`, also with IN lists, ranges and NULL; a column given twice is refused."""
        found: dict[str, PartitionValues] = {}

        def item() -> None:
            if (token := self.peek()) and token.value in found:
                raise self.refusal(f"partition column {token.value} is given twice")
            column = self.identifier("a partition column")
            found[column] = self._partition_values(column)

        self.entries(item, "the partition")
        return found

    def _partition_values(self, column: str) -> PartitionValues:
        if self.accept("IS", "NULL"):
            return (None,)
        if self.accept("IN"):
            listed: list[str | None] = []
            self.entries(lambda: listed.append(self._value_or_null(column)), "the values")
            return tuple(listed)
        if self.accept("BETWEEN"):
            lower = self._partition_value(column)
            self.expect("AND")
            return ValueRange(lower=lower, upper=self._partition_value(column))
        if self._comparison():
            return self._range(column)
        self.expect_symbol("=")
        value = self._value_or_null(column)
        return (None,) if value is None else value

    def _range(self, column: str) -> ValueRange:
        """Read `>= 'a' [AND column < 'b']`."""
        found = ValueRange()
        while sign := self._comparison():
            for symbol in sign:
                self.expect_symbol(symbol)
            value, included = self._partition_value(column), sign.endswith("=")
            if (found.lower if sign[0] == ">" else found.upper) is not None:
                raise self.refusal(f"partition column {column} has two such bounds")
            if sign[0] == ">":
                found = replace(found, lower=value, lower_included=included)
            else:
                found = replace(found, upper=value, upper_included=included)
            if self.keyword() == "AND" and (token := self.peek(1)) and token.value.lower() == column.lower():
                self._next += 2
            else:
                break
        return found

    def _comparison(self) -> str:
        """The sign <, <=, > or >= that comes next, empty for anything else."""
        first, second = self.peek(), self.peek(1)
        if first is None or first.text not in ("<", ">"):
            return ""
        return first.text + ("=" if second is not None and second.text == "=" else "")

    def _value_or_null(self, column: str) -> str | None:
        return None if self.accept("NULL") else self._partition_value(column)

    def _partition_value(self, column: str) -> str:
        token = self.peek()
        if token is None or token.kind not in {TokenKind.STRING, TokenKind.NUMBER}:
            raise self.error(f"the value of partition column {column} in quotes")
        self._next += 1
        return token.value

    def query(self) -> tuple[str, int, int]:
        """Read the rest as a query: its text as written, and the line and column where it begins."""
        first = self.peek()
        if first is None:
            raise self.error("a query after AS")
        end, stop = end_of_statement(self._text, first.start)
        self._tokens, self._next, self._rest = [], 0, significant(self._text, stop)
        if not self.at_end:
            raise self.refusal("only one statement can be run at a time")
        return self._text[first.start : end], first.line, first.column

    def text_between(self, first: Token, last: Token) -> str:
        """Return what is written from one token to another."""
        return self._text[first.start : last.end]
