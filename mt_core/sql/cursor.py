"""A cursor over the tokens of one statement, which reads expected tokens or raises a syntax error.

The grammar needs no backtracking, so each reader is a recursive descent over this cursor: `accept` tries
words, `expect` requires them, and everything else is built on these two. The cursor tokenizes lazily. A
statement for Spark is read only as far as needed to recognize it. A query after AS may contain text that
Freshtable cannot tokenize, so `query` finds its end without parsing it. Every error is a SqlSyntaxError at
the line and column of the token in the text that the client sent. Its message has the form of Flink's parser:
'Encountered "x"; expected y'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from mt_core.base.tokens import Lines, Token, TokenKind, end_of_statement, significant
from mt_core.errors import SqlSyntaxError
from mt_core.model.partition import PartitionValues, ValueRange


class TokenCursor:
    """Reads a statement from left to right, without its comments and trailing semicolons.

    The text is tokenized only as far as it is read.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[Token] = []
        self._rest = significant(text)
        self._next = 0

    def peek(self, ahead: int = 0) -> Token | None:
        """Return the token *ahead* positions after the next one, or None after the end."""
        index = self._next + ahead
        while index >= len(self._tokens):
            # A semicolon counts as a token only if another token follows it.
            semicolons: list[Token] = []
            for token in self._rest:
                semicolons.append(token)
                if token.text != ";":
                    break
            else:
                return None
            self._tokens += semicolons
        return self._tokens[index]

    def word(self, ahead: int = 0) -> str:
        """Return the word *ahead* words after the next one, in upper case, or the symbol.

        Return an empty string after the end of the statement.
        """
        token = self.peek(ahead)
        if token is None:
            return ""
        return token.text if token.kind is TokenKind.SYMBOL else token.keyword

    @property
    def at_end(self) -> bool:
        return self.peek() is None

    def take(self) -> Token | None:
        """Return the next token and move past it. Return None at the end."""
        token = self.peek()
        self._next += 1
        return token

    def accept(self, *words: str) -> bool:
        """Move past *words* if all of them come next, and return whether they did.

        A word may also be a symbol. If the words do not come next, the cursor does not move.
        """
        if any(self.word(ahead) != word for ahead, word in enumerate(words)):
            return False
        self._next += len(words)
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.accept(word):
                raise self.error(word)

    def expect_end(self, expected: str = "the end of the statement") -> None:
        if not self.at_end:
            raise self.error(expected)

    def error(self, expected: str) -> SqlSyntaxError:
        """Return a syntax error that names the next token and says that *expected* was expected."""
        return self.refusal(f"expected {expected}")

    def refusal(self, reason: str) -> SqlSyntaxError:
        """Return a syntax error at the next token that gives the *reason* why it is not accepted."""
        token = self.peek()
        if token is None:
            line, column = Lines(self._text).locate(len(self._text))
            return SqlSyntaxError(f'Encountered "<EOF>"; {reason}', line=line, column=column)
        return SqlSyntaxError(f'Encountered "{token.text}"; {reason}', line=token.line, column=token.column)

    def value(self, what: str, *kinds: TokenKind) -> str:
        """Read a token of one of *kinds* and return its value.

        If the next token is of another kind, raise an error that says that *what* was expected.
        """
        token = self.peek()
        if token is None or token.kind not in kinds:
            raise self.error(what)
        self._next += 1
        return token.value

    def identifier(self, what: str) -> str:
        if (token := self.peek()) and not token.value:
            raise self.error(what)
        return self.value(what, TokenKind.WORD, TokenKind.IDENTIFIER)

    def text_of(self, skip: Callable[[], None], what: str) -> str:
        """Return the text that *skip* moves past, with its comments.

        If *skip* does not move, raise an error that says that *what* was expected.
        """
        first = self._next
        skip()
        if self._next == first:
            raise self.error(what)
        last = min(self._next, len(self._tokens)) - 1
        return self._text[self._tokens[first].start : self._tokens[last].end]

    def name(self, what: str = "the name of a materialized table") -> tuple[str, ...]:
        """Read a name with its qualifiers, such as catalog.`my schema`.t."""
        parts = [self.identifier(what)]
        while self.accept("."):
            parts.append(self.identifier("the next part of the name"))
        return tuple(parts)

    def string(self, what: str) -> str:
        return self.value(what, TokenKind.STRING)

    def comment(self) -> str | None:
        """Read `[COMMENT 'text']`; return None if there is none."""
        return self.string("the comment in quotes") if self.accept("COMMENT") else None

    def entries(self, what: str, *, empty: bool = False) -> Iterator[None]:
        """Read `( item, … )`. The body of a loop over the result must read one item in each iteration.

        With *empty*, `()` is allowed too.
        """
        if not self.accept("("):
            raise self.error(f"( before {what}")
        if empty and self.accept(")"):
            return
        yield
        while self.accept(","):
            yield
        if not self.accept(")"):
            raise self.error(f", or ) after {what}")

    def properties(self) -> Mapping[str, str]:
        """Read `('key' = 'value', …)`; raises SqlSyntaxError if a key is given twice."""
        properties: dict[str, str] = {}
        for _ in self.entries("the options", empty=True):
            if (token := self.peek()) and token.value in properties and token.kind is TokenKind.STRING:
                raise self.refusal(f"option '{token.value}' is given twice")
            key = self.string("an option key in quotes")
            self.expect("=")
            properties[key] = self.string(f"the value of option '{key}' in quotes")
        return properties

    def property_keys(self) -> tuple[str, ...]:
        """Read `('key', …)`."""
        return tuple(self.string("an option key in quotes") for _ in self.entries("the option keys"))

    def numbers(self) -> str:
        """Read the arguments of a type, `[(n, …)]`, and return the text between the brackets."""
        if self.word() != "(":
            return ""
        return ", ".join(
            self.value("a number", TokenKind.NUMBER) for _ in self.entries("the numbers of a type")
        )

    def partition(self) -> Mapping[str, PartitionValues]:
        """Read `(column = 'value', …)`. Instead of a value, a column may have an IN list, a range or NULL.

        Raises SqlSyntaxError if a column is given twice.
        """
        partition: dict[str, PartitionValues] = {}
        for _ in self.entries("the partition"):
            if (token := self.peek()) and token.value in partition:
                raise self.refusal(f"partition column {token.value} is given twice")
            column = self.identifier("a partition column")
            partition[column] = self._partition_values(column)
        return partition

    def _partition_values(self, column: str) -> PartitionValues:
        if self.accept("IS", "NULL"):
            return (None,)
        if self.accept("IN"):
            return tuple(self._value_or_null(column) for _ in self.entries("the values"))
        if self.accept("BETWEEN"):
            lower = self._partition_value(column)
            self.expect("AND")
            return ValueRange(lower=lower, upper=self._partition_value(column))
        if self._comparison():
            return self._range(column)
        self.expect("=")
        value = self._value_or_null(column)
        return (None,) if value is None else value

    def _range(self, column: str) -> ValueRange:
        """Read `>= 'a' [AND column < 'b']`."""
        bounds = ValueRange()
        while sign := self._comparison():
            for symbol in sign:
                self.expect(symbol)
            value, included = self._partition_value(column), sign.endswith("=")
            if (bounds.lower if sign[0] == ">" else bounds.upper) is not None:
                raise self.refusal(f"partition column {column} has two such bounds")
            if sign[0] == ">":
                bounds = replace(bounds, lower=value, lower_included=included)
            else:
                bounds = replace(bounds, upper=value, upper_included=included)
            if self.word() == "AND" and (token := self.peek(1)) and token.value.lower() == column.lower():
                self._next += 2
            else:
                break
        return bounds

    def _comparison(self) -> str:
        """Return the sign <, <=, > or >= if it comes next, or an empty string."""
        first, second = self.peek(), self.peek(1)
        if first is None or first.text not in ("<", ">"):
            return ""
        return first.text + ("=" if second is not None and second.text == "=" else "")

    def _value_or_null(self, column: str) -> str | None:
        return None if self.accept("NULL") else self._partition_value(column)

    def _partition_value(self, column: str) -> str:
        if self.word() == "DATE" and (token := self.peek(1)) and token.kind is TokenKind.STRING:
            self.take()
        return self.value(
            f"the value of partition column {column} in quotes", TokenKind.STRING, TokenKind.NUMBER
        )

    def query(self) -> tuple[str, int, int]:
        """Read the rest of the statement as a query; return its text as written, its line and its column."""
        first = self.peek()
        if first is None:
            raise self.error("a query after AS")
        end, stop = end_of_statement(self._text, first.start)
        self._tokens, self._next, self._rest = [], 0, significant(self._text, stop)
        if not self.at_end:
            raise self.refusal("only one statement can be run at a time")
        return self._text[first.start : end], first.line, first.column
