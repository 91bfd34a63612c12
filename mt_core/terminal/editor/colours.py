"""Syntax colours of typed statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import split_lines
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from mt_core.terminal.display import ColourScheme
from mt_core.terminal.prompt.typed import pieces

_BRACKETS = {
    "matching-bracket.cursor": "noinherit reverse",
    "matching-bracket.other": "noinherit bold underline",
    "line-number": "ansibrightblack",
}


def _style(*, keyword: str, identifier: str, string: str, number: str, comment: str, hint: str) -> Style:
    looks = {"keyword": keyword, "identifier": identifier, "string": string, "number": number}
    return Style.from_dict({**looks, "comment": comment, "hint": hint, **_BRACKETS})


# `default` uses the palette of the terminal; each other scheme suits either a dark or a light background.
STYLES: Mapping[ColourScheme, Style] = {
    ColourScheme.DEFAULT: _style(
        keyword="bold ansiblue",
        identifier="ansicyan",
        string="ansigreen",
        number="ansimagenta",
        comment="italic ansibrightblack",
        hint="ansiyellow",
    ),
    ColourScheme.DARK: _style(
        keyword="bold #87afff",
        identifier="#5fd7d7",
        string="#87d787",
        number="#d7afff",
        comment="italic #8a8a8a",
        hint="#ffd75f",
    ),
    ColourScheme.LIGHT: _style(
        keyword="bold #0000af",
        identifier="#005f5f",
        string="#005f00",
        number="#870087",
        comment="italic #767676",
        hint="#875f00",
    ),
    ColourScheme.CHESTER: _style(
        keyword="bold #0086d1",
        identifier="#b5179e",
        string="#d14905",
        number="#7b3fc4",
        comment="italic #3f8f3f",
        hint="#a58400",
    ),
    ColourScheme.VS2010: _style(
        keyword="bold #569cd6",
        identifier="#9cdcfe",
        string="#d69d85",
        number="#b5cea8",
        comment="italic #57a64a",
        hint="#dcdcaa",
    ),
    ColourScheme.SOLARIZED: _style(
        keyword="bold #859900",
        identifier="#268bd2",
        string="#2aa198",
        number="#d33682",
        comment="italic #93a1a1",
        hint="#b58900",
    ),
    ColourScheme.OBSIDIAN: _style(
        keyword="bold #93c763",
        identifier="#678cb1",
        string="#ec7600",
        number="#ffcd22",
        comment="italic #818e96",
        hint="#a082bd",
    ),
    ColourScheme.GESHI: _style(
        keyword="bold #993333",
        identifier="#66cc66",
        string="#ff0000",
        number="#cc66cc",
        comment="italic #808080",
        hint="#808000",
    ),
}


class SqlLexer(Lexer):
    """Splits each line of a document into pieces, styled with the classes of `STYLES`."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        styled: StyleAndTextTuples = [
            (f"class:{piece.look}" if piece.look else "", piece.text) for piece in pieces(document.text)
        ]
        lines = list(split_lines(styled))

        def line(number: int) -> StyleAndTextTuples:
            return lines[number] if number < len(lines) else []

        return line
