"""The line editor, which reads complete statements from a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.enums import DEFAULT_BUFFER, EditingMode
from prompt_toolkit.filters import completion_is_selected, has_completions, has_focus, vi_navigation_mode
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout.processors import HighlightMatchingBracketProcessor
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.styles import DynamicStyle

from mt_core.client.session import Closing
from mt_core.errors import MtError
from mt_core.terminal.display import Display
from mt_core.terminal.editor.candidates import Candidates, Place
from mt_core.terminal.editor.colours import STYLES, SqlLexer
from mt_core.terminal.editor.completer import SqlCompleter, names_tables, place_at
from mt_core.terminal.editor.history import StatementHistory, history_file
from mt_core.terminal.prompt.state import CONTINUATION, Keys, PromptState
from mt_core.terminal.prompt.typed import is_whole

# The previous statement is sent with each request for candidates. A longer statement would cost more than its
# columns are worth.
_LONGEST_OF_TABLES = 100_000
_MODES = {Keys.EMACS: EditingMode.EMACS, Keys.VI: EditingMode.VI}


class Editor(Closing):
    """Reads keys from *input* and draws on *output*.

    Both default to the terminal, because standard output may be a file of rows.
    """

    def __init__(
        self, sitting: PromptState, *, input: Input | None = None, output: Output | None = None
    ) -> None:
        self._sitting, self._display, self._of_tables = sitting, Display(), ""
        self._candidates = Candidates(self._words, self._offer)
        self._session: PromptSession[str] = PromptSession(
            multiline=True,
            prompt_continuation=self._continuation,
            lexer=SqlLexer(),
            style=DynamicStyle(lambda: STYLES[self._display.colours]),
            completer=SqlCompleter(self._candidates),
            complete_while_typing=True,
            history=StatementHistory(sitting.history or history_file(sitting.environ)),
            search_ignore_case=True,
            enable_open_in_editor=True,
            tempfile_suffix=".sql",
            input_processors=[HighlightMatchingBracketProcessor()],
            key_bindings=_bindings(),
            color_depth=ColorDepth.DEPTH_1_BIT if sitting.environ.get("NO_COLOR") else None,
            input=input,
            output=output or create_output(stdout=sys.stderr),
        )

    def read(self, prompt: str, begun: str = "") -> str:
        """Return complete statements or a command. The buffer initially contains *begun*."""
        self._candidates.forget()
        last = self._sitting.last
        if len(last) <= _LONGEST_OF_TABLES and names_tables(last):
            self._of_tables = last
        try:
            self._display = self._sitting.runner.typing_display
        except MtError as error:
            self._sitting.runner.show_error(error)
        self._session.editing_mode = _MODES[self._sitting.keys]
        return self._session.prompt(prompt, default=begun)

    def close(self) -> None:
        """Stop asking the gateway for candidates."""
        self._candidates.close()

    def _continuation(self, width: int, line: int, wraps: int) -> StyleAndTextTuples:
        """Return the prefix of a line after the first.

        It is the line number, if enabled, or the continuation prompt.
        """
        if wraps or not self._display.line_numbers:
            return [("", CONTINUATION)]
        return [("class:line-number", f"{line + 1} ".rjust(width))]

    def _words(self, statement: str, position: int) -> Sequence[str]:
        """Ask the gateway for the candidates at *position* of *statement*.

        The gateway offers the columns of all tables in the text. If the statement names no table yet, the
        previous statement is appended, so that the columns of its tables are offered.
        """
        if not names_tables(statement):
            statement = f"{statement}\n;{self._of_tables}"
        return self._sitting.runner.client.complete(statement, position)

    def _offer(self, place: Place) -> None:
        """Show the candidates at *place*, unless the cursor has moved elsewhere.

        This runs in the thread of the candidates.
        """
        app: Any = self._session.app
        if app.loop is not None:
            # The event loop may already be closed, because each statement has a loop of its own.
            with suppress(RuntimeError):
                app.loop.call_soon_threadsafe(self._complete, place, context=app.context)

    def _complete(self, asked: Place) -> None:
        buffer = self._session.default_buffer
        place = place_at(buffer.document)
        chosen = buffer.complete_state is not None and buffer.complete_state.complete_index is not None
        if place is not None and place.continues(asked) and not chosen and get_app().is_running:
            buffer.complete_state = None
            buffer.start_completion()


def _bindings() -> KeyBindings:
    """Return the bindings of Enter and Up.

    Enter accepts the selected candidate or runs complete statements; in all other cases it starts another
    line. Up recalls the previous statement even while candidates are offered, until Tab has selected one.
    """
    bindings, typing = KeyBindings(), has_focus(DEFAULT_BUFFER)

    @bindings.add("enter", filter=typing & ~completion_is_selected)
    def _run(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_whole(buffer.text):
            buffer.validate_and_handle()
        elif vi_navigation_mode():
            buffer.cursor_down()
        else:
            buffer.newline(copy_margin=False)

    @bindings.add("enter", filter=typing & completion_is_selected)
    def _take(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    @bindings.add("up", filter=typing & has_completions & ~completion_is_selected)
    def _recall(event: KeyPressEvent) -> None:
        event.current_buffer.cancel_completion()
        event.current_buffer.auto_up(count=event.arg)

    @bindings.add("escape", "enter", filter=typing)
    def _break(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    return bindings
