"""The line of a statement that an error names, with a caret under the token, fitted to the screen."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from mt_core.base.statement.error_place import place_in
from mt_core.errors import MtError

_INDENT = "  "
# Marks the place at which a line wider than the screen is cut.
_CUT = "…"


def place_of(error: MtError, statement: str, width: int) -> list[str]:
    """Return the line of *statement* that *error* names and a line with a caret under the token.

    Both fit in *width* columns. The result is empty if *error* names no place in *statement*.
    """
    place = place_in(error, statement)
    if place is None:
        return []
    text, at = place.text, place.at
    carets = max(1, cell_len(text[at : at + place.length]))
    return _fitted(text.replace("\t", " "), at, carets, width)


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
