"""The viewer, which shows a view of a result on the full screen of a terminal.

A result can be unbounded, and the terminal must stay responsive. Three parts share a result. The `LiveResult`
reads its pages in a thread. The `View` (no terminal, no thread) decides what is visible. This module runs a
prompt_toolkit application that passes keys to the view and redraws it. It redraws every 50 ms while the view
works, at the view's refresh interval, and once a second for the elapsed time in the title.

The application uses the alternate screen, so leaving it restores the terminal. The last page is then printed,
as a record in the scrollback. A small result that fits the screen is printed instead of viewed, so the first
pages are read before the decision. This does not apply to unbounded streaming queries, whose next page may
never arrive.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from shutil import get_terminal_size

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.styles import Style

from mt_core.client.pages import ResultPage
from mt_core.terminal.background import PutAside, Viewed, Work
from mt_core.terminal.display import Display, ResultMode
from mt_core.terminal.viewer.copied_rows import clipboard_sequence
from mt_core.terminal.viewer.live_result import LiveResult, Shown
from mt_core.terminal.viewer.view import FRAME_LINES, View

_NAMES = {Keys.ControlM: "enter", Keys.ControlJ: "enter", Keys.ControlH: "backspace"}
# The number of pages to wait for, to see whether a small result fits the screen and can be printed.
_PAGES_BEFORE = 2
_TICK_S = 0.05
# The title shows the elapsed time, updated at this interval in seconds.
_TITLE_S = 1.0
_STYLE = Style.from_dict(
    {
        "view-title": "reverse",
        "view-names": "bold",
        "view-rule": "ansibrightblack",
        "view-selected": "reverse",
        "view-keys": "ansibrightblack",
        "view-notice": "bold ansiyellow",
    }
)


class ScreenViewer:
    """Reads keys from *input* and draws on *output*, which default to the terminal."""

    def __init__(
        self, *, colours: bool = True, input: Input | None = None, output: Output | None = None
    ) -> None:
        self._colours, self._input, self._output = colours, input, output

    def open(
        self, work: Work, pages: Iterable[ResultPage], properties: Callable[[], Mapping[str, str]]
    ) -> Iterable[ResultPage] | ScreenLook:
        """Return a view of *pages*. If they fit the screen, return the pages, to be printed."""
        iterator, display = iter(pages), work.display
        begun = [next(iterator)]
        if not (display.streaming and begun[0].is_query):
            self._read_on(begun, iterator)
        if begun[-1].is_last and _fits(begun):
            return chain(begun, iterator)
        result = LiveResult(
            begun[0], chain(begun[1:], iterator), _shown(begun[0], display), display.most_rows
        )
        view = View(
            title=" ".join(work.statement.split()),
            result=result,
            column_width=display.column_width,
            properties=properties,
            began=work.began,
        )
        return ScreenLook(view, self._run)

    def _read_on(self, begun: list[ResultPage], pages: Iterator[ResultPage]) -> None:
        """Append to *begun* the next pages of a result that may fit the screen."""
        while not begun[-1].is_last and _fits(begun) and len(begun) <= _PAGES_BEFORE:
            begun.append(next(pages))

    def _run(self, view: View) -> None:
        window = Window(
            FormattedTextControl(lambda: _text(view, app.output)), wrap_lines=False, always_hide_cursor=True
        )
        app: Application[None] = Application(
            layout=Layout(window),
            key_bindings=_bindings(view),
            style=_STYLE,
            full_screen=True,
            color_depth=None if self._colours else ColorDepth.DEPTH_1_BIT,
            input=self._input,
            output=self._output or create_output(stdout=sys.stderr),
        )
        # Reading the pages earlier would delay the first screen.
        app.after_render += lambda _: view.result.read_on()
        # A single Escape leaves the view. The rest of an escape sequence arrives within this timeout.
        app.ttimeoutlen = app.timeoutlen = _TICK_S
        app.run(pre_run=lambda: _start(app, view), handle_sigint=False)


class ScreenLook:
    """A view that *run* shows on the screen."""

    def __init__(self, view: View, run: Callable[[View], None]) -> None:
        self._view, self._run = view, run

    def look(self) -> Viewed:
        self._view.is_put_aside = False
        try:
            self._run(self._view)
        except BaseException:
            self.close()
            raise
        if self._view.is_put_aside:
            raise PutAside
        page, taken = self._view.printed(), self._view.result.snapshot()
        self.close()
        is_whole = taken.has_ended and not taken.more
        return Viewed(rows=taken.left_out + taken.count, is_whole=is_whole, page=page, error=taken.error)

    def close(self) -> None:
        self._view.result.close()


def _start(app: Application[None], view: View) -> None:
    app.create_background_task(_refresh(app, view))


async def _refresh(app: Application[None], view: View) -> None:
    """Take snapshots at the interval of *view*, and advance its work."""
    taken = drawn = time.monotonic()
    while True:
        await asyncio.sleep(0 if view.is_working else _TICK_S)
        now = time.monotonic()
        if view.is_working:
            # Keys are handled between two steps.
            view.work_on()
            if view.is_working and now - drawn < _TICK_S:
                continue
        elif (every_s := view.refresh_s) is not None and now - taken >= every_s:
            view.refresh()
            taken = now
        elif view.snapshot.has_ended or now - drawn < _TITLE_S:
            continue
        drawn = now
        app.invalidate()


def _bindings(view: View) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add(Keys.Any)
    @bindings.add("escape", eager=False)
    @bindings.add(Keys.BracketedPaste)
    @bindings.add(Keys.SIGINT)
    def _press(event: KeyPressEvent) -> None:
        pressed = event.key_sequence[-1]
        if pressed.key in {Keys.BracketedPaste}:
            view.press(pressed.data)
        else:
            view.press(
                _NAMES.get(Keys(pressed.key), Keys(pressed.key).value)
                if pressed.key in set(Keys)
                else pressed.key
            )
        if view.copied is not None:
            event.app.output.write_raw(clipboard_sequence(view.copied))
            event.app.output.flush()
            view.copied = None
        if view.has_left or view.is_put_aside:
            event.app.exit()

    return bindings


def _text(view: View, output: Output) -> StyleAndTextTuples:
    size = output.get_size()
    text: StyleAndTextTuples = []
    for line in view.lines(size.columns, size.rows):
        text += [*line, ("", "\n")]
    return text[:-1]


def _fits(pages: list[ResultPage]) -> bool:
    # Imported here because grids load half of rich, which would delay the prompt.
    from mt_core.terminal.output.table import lines_of

    size = get_terminal_size()
    room, rows = size.lines - FRAME_LINES - 1, sum(len(page.rows) for page in pages)
    return rows <= room and (rows == 1 or lines_of(pages, size.columns) <= room)


def _shown(first: ResultPage, display: Display) -> Shown:
    match display.mode:
        case ResultMode.CHANGELOG if first.is_query:
            return Shown.CHANGES
        case _ if first.kinds is not None:
            return Shown.STANDING
        case _:
            return Shown.LAST if display.streaming and first.is_query else Shown.FIRST
