"""Completion of commands and keywords immediately, and of names when the gateway has responded."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from mt_core.base.statement.typed_word import typed_word
from mt_core.base.tokens import significant
from mt_core.errors import SqlSyntaxError
from mt_core.terminal.editor.candidates import Candidates, Place
from mt_core.terminal.prompt.commands import COMMANDS, command_named
from mt_core.terminal.prompt.keywords import keywords_after
from mt_core.terminal.prompt.typed import BACKSLASH, is_command

MOST_OFFERED = 100
"""The maximum number of offered words. Each key redraws the menu, which measures all of them."""
_BEFORE_TABLE = {"FROM", "JOIN", "INTO", "UPDATE"}
# After this prefix of a statement, the gateway offers tables.
_OF_TABLES = "DESCRIBE "


class SqlCompleter(Completer):
    """Completes words without waiting. Missing candidates are requested, and offered when they arrive.

    Up to `MOST_OFFERED` words are offered; typing more letters narrows them down.
    """

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if is_command(document.text) and (names := _command_names(before)) is not None:
            yield from (Completion(name, start_position=-len(before.lstrip())) for name in names)
            return
        place = place_at(document)
        if place is None:
            return
        offered = (
            {} if is_command(document.text) else dict.fromkeys(keywords_after(place.before, place.begun))
        )
        answered = self._candidates.at(place)
        # Only the gateway knows what is valid here. Until it has responded, offer keywords as guesses.
        others = (word for word in answered or offered if word != place.begun)
        for word in islice(others, MOST_OFFERED):
            yield Completion(word, start_position=-len(place.begun))


def names_tables(text: str) -> bool:
    """Return whether *text* contains a keyword that is followed by a table, such as FROM.

    The columns of such tables can be offered.
    """
    with suppress(SqlSyntaxError):
        return any(token.keyword in _BEFORE_TABLE for token in significant(text))
    return True


def place_at(document: Document) -> Place | None:
    """Return the place to ask the gateway about, or None if there is nothing to complete."""
    before, after = document.text_before_cursor, document.text_after_cursor
    begun = typed_word(before)
    if is_command(document.text):
        command = command_named(before.split()[0])
        return (
            Place(before=_OF_TABLES, begun=begun, after="")
            if command is not None and command.takes_table
            else None
        )
    start = before[: len(before) - len(begun)]
    # At the start of a statement every keyword fits, which is of no help, and Enter must run a complete
    # statement.
    at_start = not begun and start.rstrip()[-1:] in {"", ";"}
    return None if at_start else Place(before=start, begun=begun, after=after)


def _command_names(before: str) -> list[str] | None:
    """Return the commands that complete *before*, or None if its first word is complete."""
    text = before.lstrip()
    if not text.startswith(BACKSLASH) or any(each.isspace() for each in text):
        return None if text.startswith(BACKSLASH) or " " in text else []
    return [command.name for command in COMMANDS if command.name.startswith(text) and command.name != text]
