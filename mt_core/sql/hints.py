"""Flink's hints after table names, `t /*+ OPTIONS('key' = 'value') */`, which Spark does not support."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mt_core.base.options import BOOLEAN
from mt_core.base.tokens import Token, TokenKind, significant
from mt_core.errors import DefinitionInvalid, SqlSyntaxError, Unsupported
from mt_core.model.stream import SourceHint
from mt_core.sql.cursor import TokenCursor
from mt_core.sql.state_ttl_hints import with_state_ttls

STREAMING = "streaming"
_OPTIONS = re.compile(r"/\*\+\s*OPTIONS\b", re.IGNORECASE)
_VIEW = "CREATE_VIEW"
_NAMES = frozenset({TokenKind.WORD, TokenKind.IDENTIFIER})
# Words and symbols that may precede a table name but not an alias.
_BEFORE_TABLE = frozenset({"FROM", "JOIN", "INTO", "OVERWRITE", "TABLE", "STREAM", "USING", ",", "("})


@dataclass(frozen=True, slots=True, kw_only=True)
class HintedText:
    """SQL in which blanks replace the hints, so that positions stay the same, and the hints in order."""

    text: str
    hints: tuple[SourceHint, ...] = ()


def without_hints(text: str) -> HintedText:
    """Return *text* without its OPTIONS hints and with STATE_TTL hints in the form that Spark parses.

    All other hints remain, because Spark handles the hints after SELECT. Raises SqlSyntaxError if an OPTIONS
    or STATE_TTL hint cannot be parsed or is in the wrong place.
    """
    text = with_state_ttls(text)
    if not _OPTIONS.search(text):
        return HintedText(text=text)
    blanked, hints, end = list[str](), list[SourceHint](), 0
    for hint, name in _hinted(text):
        options = _options(text, hint)
        blanked += [text[end : hint.start], _blank(hint.text)]
        hints.append(SourceHint(start=name[0].start, stop=name[-1].end, options=options))
        end = hint.end
    return HintedText(text="".join([*blanked, text[end:]]), hints=tuple(hints))


def check_hints(type_: str, text: str, hints: Sequence[SourceHint]) -> None:
    """Raise an error if a statement of *type_* has hints that are not supported.

    Raises Unsupported for an unknown option, and for any hint in CREATE VIEW, because a view does not store
    hints. Raises DefinitionInvalid for an invalid value.
    """
    for hint in hints:
        table = text[hint.start : hint.stop]
        if type_ == _VIEW:
            raise Unsupported(
                f"Table {table}: a view does not store OPTIONS; "
                "write them after the name of the view in the statement that reads it."
            )
        for key, value in hint.options.items():
            if key != STREAMING:
                raise Unsupported(
                    f"Table {table}: option '{key}' is not supported in OPTIONS; only '{STREAMING}' is. "
                    "Leave it out, or set the option of the table itself in CREATE TABLE … WITH."
                )
            if not BOOLEAN.accepts(value):
                raise DefinitionInvalid(
                    f"Table {table}: option '{key}' is '{value}' in OPTIONS; expected {BOOLEAN.name}."
                )


def _hinted(text: str) -> Iterator[tuple[Token, Sequence[Token]]]:
    """Yield each OPTIONS hint with the tokens of the table name before it."""
    before, name = "", list[Token]()
    for token in significant(text):
        if token.kind is TokenKind.HINT and _OPTIONS.match(token.text):
            has_name = all(each.kind in _NAMES for each in name[::2]) and len(name) % 2 == 1
            if not has_name or name[0].keyword == "SELECT" or before not in _BEFORE_TABLE:
                raise SqlSyntaxError(
                    'Encountered "/*+ OPTIONS"; expected it directly after the name of a '
                    "table, before its alias",
                    line=token.line,
                    column=token.column,
                )
            yield token, tuple(name)
        elif name and "." in (token.text, name[-1].text):
            name.append(token)
        else:
            before, name = (name[-1].keyword or name[-1].text) if name else "", [token]


def _options(text: str, hint: Token) -> dict[str, str]:
    # The padding keeps the hint at its line and column in the text that the client sent.
    cursor = TokenCursor(_blank(text[: hint.start + 3]) + hint.text[3:-2])
    cursor.expect("OPTIONS")
    options = cursor.properties()
    cursor.expect_end("the end of the hint")
    return dict(options)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
