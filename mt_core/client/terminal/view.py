"""The view of a result: what a screen shows of it, and what each key does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rich.cells import set_cell_size

from mt_core.client.terminal.live_result import LiveResult, Snapshot
from mt_core.client.terminal.view_lines import (
    MORE_BEFORE,
    Line,
    RowLines,
    fitted_widths,
    framed,
    grid_line,
    rule,
    whole_columns,
)
from mt_core.plural import plural

INTERVALS: tuple[tuple[str, float | None], ...] = (
    ("fastest", 0.05),
    ("100 ms", 0.1),
    ("500 ms", 0.5),
    ("1 s", 1.0),
    ("5 s", 5.0),
    ("10 s", 10.0),
    ("1 min", 60.0),
    ("-", None),
)
_AT_FIRST = 3
# The title, the names, the rule below them, and the line of keys.
FRAME_LINES = 4
_SEARCHED = 1_000
# So many rows are searched before the next key is read: most results have no more.
_AT_ONCE = 20_000
_SIDE = 1
_KEYS_OF_GRID = (
    "Q leave  arrows move  N/P page  G go to page  L end  O open row  / search  Space pause  R refresh  +/- interval"
)
_KEYS_OF_ROW = "Q, Esc back  arrows move"


class Asked(StrEnum):
    """What a person types an answer to, in the last line."""

    PAGE = "Go to page: "
    SEARCH = "Search: "


@dataclass(kw_only=True)
class View:
    """A screen of *width* and *height* on rows of `result`; `has_left` once a person has had enough, `is_put_aside` for now.

    `selected` is the row of the cursor and `top` the first row on the screen, both positions in `snapshot`; `left` is the first
    column. `page_lines` is how many rows the screen had when it was drawn last, and `width` how wide it was.
    """

    title: str
    result: LiveResult
    column_width: int
    snapshot: Snapshot = field(init=False)
    top: int = 0
    selected: int = 0
    left: int = 0
    page_lines: int = 1
    width: int = 80
    interval: int = _AT_FIRST
    is_paused: bool = False
    has_left: bool = False
    is_put_aside: bool = False
    asked: Asked | None = None
    answer: str = ""
    sought: str = ""
    searched: int = 0
    notice: str = ""
    row: RowLines | None = None
    widths: list[int] = field(default_factory=list)
    _steps: Iterator[int] | None = None

    def __post_init__(self) -> None:
        self.snapshot = self.result.snapshot()
        self.selected = max(0, self.snapshot.count - 1) if self.result.is_followed else 0

    @property
    def refresh_s(self) -> float | None:
        """After how many seconds another snapshot is to be taken; None while this one is looked at, or is the last one."""
        is_busy = self.asked is not None or self.row is not None or self.is_searching
        if self.is_paused or is_busy or self.snapshot.has_ended:
            return None
        return INTERVALS[self.interval][1]

    def refresh(self) -> None:
        """Show the rows as they are now; a cursor on the newest row stays there, any other on its row."""
        at_end = self.result.is_followed and self.selected >= self.snapshot.count - 1
        left_out = self.snapshot.left_out
        self.snapshot = self.result.snapshot()
        moved = self.snapshot.left_out - left_out
        self.top = max(0, self.top - moved)
        self._select(self.snapshot.count - 1 if at_end else self.selected - moved)

    def press(self, key: str) -> None:
        """Do what *key* is for; the names of keys are those of prompt_toolkit, and a text is what was typed or pasted."""
        if self.is_searching:
            self._steps, self.notice = None, "The search was ended."
            if key in {"escape", "c-c"}:
                return
        self.notice = ""
        if self.asked is not None:
            self._answer(key)
        elif self.row is not None:
            self._press_on_row(key)
        elif (action := _KEYS.get(key if len(key) > 1 else key.lower())) is not None:
            action(self)

    @property
    def is_searching(self) -> bool:
        """Whether `search_on` has rows left to search."""
        return self._steps is not None

    def search_on(self) -> None:
        """Search some more rows; between two calls, a person can break the search off."""
        searched = None if self._steps is None else next(self._steps, None)
        if searched is None:
            self._steps = None
        else:
            self.searched = searched

    # ------------------------------------------------------------------------------------------------------ the screen

    def lines(self, width: int, height: int) -> list[Line]:
        """Return the screen, *height* lines that fit into *width*."""
        self.page_lines, self.width = max(1, height - FRAME_LINES), width
        if self.row is not None:
            body = self.row.lines(width, height - 2)
            status = f"row {self.snapshot.left_out + self.selected + 1}"
        else:
            body, status = self._grid(width), self._status()
        body += [[] for _ in range(height - 2 - len(body))]
        title: Line = [("class:view-title", set_cell_size(f"{status}  {self.title}", width))]
        return [title, *body[: height - 2], self._foot(width)]

    def _grid(self, width: int) -> list[Line]:
        self._scroll()
        columns = self.result.columns
        rows = self.snapshot.read(self.top, self.top + self.page_lines)
        self.widths = fitted_widths(columns, rows, self.widths, (width, self.column_width))
        self._aside(0)
        lines = [grid_line(columns, [column.name for column in columns], self.widths, self.left, "class:view-names")]
        lines.append(rule(self.widths, self.left))
        for number, row in enumerate(rows, start=self.top):
            style = "class:view-selected" if number == self.selected else ""
            lines.append(grid_line(columns, row, self.widths, self.left, style))
        return framed(lines, width, before=self.left > 0, after=self._last_column < len(columns))

    @property
    def _last_column(self) -> int:
        """The number, from 1, of the last column that the screen has as a whole, or else of the first one."""
        return self.left + max(1, whole_columns(self.widths, self.left, self._room))

    @property
    def _room(self) -> int:
        return self.width - (len(MORE_BEFORE) if self.left else 0)

    def _status(self) -> str:
        taken = self.snapshot
        page, pages = self.top // self.page_lines + 1, max(1, -(-taken.count // self.page_lines))
        told = [f"row {taken.left_out + self.selected + 1 if taken.count else 0} of {taken.left_out + taken.count}"]
        told.append(f"page {page} of {pages}")
        if self.left or self._last_column < len(self.result.columns):
            told.append(f"columns {self.left + 1}-{self._last_column} of {len(self.result.columns)}")
        if taken.left_out:
            told.append(f"the last {taken.count} {plural(taken.count, 'row')}")
        if taken.more:
            told.append(f"the first {taken.count} {plural(taken.count, 'row')} of more")
        elif taken.error is not None:
            told.append("failed")
        elif taken.has_ended:
            told.append("all rows")
        else:
            told.append("paused" if self.is_paused else f"refresh {INTERVALS[self.interval][0]}")
        return " | ".join(told)

    def _foot(self, width: int) -> Line:
        if self.asked is not None:
            return [("", f"{self.asked}{self.answer}"[-width:])]
        if self.is_searching:
            text = f"{self.searched} {plural(self.searched, 'row has', 'rows have')} no {self.sought}. Ctrl-C ends the search."
            return [("class:view-notice", text[:width])]
        if self.notice:
            return [("class:view-notice", self.notice[:width])]
        if self.snapshot.error is not None:
            return [("class:view-notice", " ".join(str(self.snapshot.error).split())[:width])]
        return [("class:view-keys", (_KEYS_OF_GRID if self.row is None else _KEYS_OF_ROW)[:width])]

    def _scroll(self) -> None:
        """Have the cursor on the screen."""
        self._select(self.selected)
        least = self.selected - self.page_lines + 1
        self.top = max(0, min(max(self.top, least), self.selected))

    # -------------------------------------------------------------------------------------------------------- the keys

    def _select(self, row: int) -> None:
        self.selected = max(0, min(row, self.snapshot.count - 1))

    def _turn(self, pages: int) -> None:
        self.top = max(0, min(self.top + pages * self.page_lines, self.snapshot.count - 1))
        self._select(self.top)

    def _aside(self, columns: int) -> None:
        """Move by *columns*, and no farther than to where the last one is on the screen."""
        room, last = self.width - len(MORE_BEFORE), len(self.result.columns) - 1
        while last > 0 and whole_columns(self.widths, last - 1, room) == len(self.result.columns) - last + 1:
            last -= 1
        if whole_columns(self.widths, 0, self.width) == len(self.result.columns):
            last = 0
        self.left = max(0, min(self.left + columns, last))

    def _change_interval(self, steps: int) -> None:
        self.interval = max(0, min(self.interval + steps, len(INTERVALS) - 1))

    def _pause(self) -> None:
        self.is_paused = not self.is_paused

    def _leave(self) -> None:
        self.has_left = True

    def _put_aside(self) -> None:
        self.is_put_aside = True

    def _ask(self, asked: Asked) -> None:
        self.asked, self.answer = asked, ""

    def _open(self) -> None:
        if self.snapshot.count:
            [row] = self.snapshot.read(self.selected, self.selected + 1)
            self.row = RowLines(columns=self.result.columns, row=row)

    def _press_on_row(self, key: str) -> None:
        assert self.row is not None
        match key.lower():
            case "q" | "escape" | "c-c" | "o" | "enter":
                self.row = None
            case "up" | "w":
                self.row.move(-1)
            case "down" | "s":
                self.row.move(1)
            case "pagedown" | "n":
                self.row.move(self.page_lines)
            case "pageup" | "p":
                self.row.move(-self.page_lines)

    def _answer(self, key: str) -> None:
        match key:
            case "escape" | "c-c":
                self.asked = None
            case "backspace":
                self.answer = self.answer[:-1]
            case "enter":
                asked, self.asked = self.asked, None
                if asked is Asked.PAGE:
                    self._go_to(self.answer)
                else:
                    self._search(self.answer)
            case _ if key.isprintable() and key not in _NAMED:
                self.answer += key

    def _go_to(self, page: str) -> None:
        if not page.strip().isdecimal():
            self.notice = f"{page or 'Nothing'} is no number of a page."
            return
        self.top = 0
        self._turn(max(0, int(page) - 1))

    def _search(self, text: str) -> None:
        """Select the next row that has *text*, in any case, or that was sought before; the first one follows the last."""
        self.sought = text or self.sought
        if self.sought:
            self._steps, self.searched = self._found(), 0
            while self.is_searching and self.searched < _AT_ONCE:
                self.search_on()

    def _found(self) -> Iterator[int]:
        """Yield how many rows were searched, some at a time, up to the one that is selected then."""
        sought, searched = self.sought.casefold(), 0
        for start, stop in ((self.selected + 1, self.snapshot.count), (0, self.selected + 1)):
            for begin in range(start, stop, _SEARCHED):
                rows = self.snapshot.read(begin, min(begin + _SEARCHED, stop))
                for number, row in enumerate(rows, start=begin):
                    if any(text is not None and sought in text.casefold() for text in row):
                        self._select(number)
                        return
                searched += len(rows)
                yield searched
        self.notice = f"No row has {self.sought}."


_KEYS: Mapping[str, Callable[[View], None]] = {
    **dict.fromkeys(("q", "escape", "c-c"), View._leave),
    **dict.fromkeys(("r", "f5"), View.refresh),
    **dict.fromkeys(("up", "w"), lambda view: view._select(view.selected - 1)),
    **dict.fromkeys(("down", "s"), lambda view: view._select(view.selected + 1)),
    **dict.fromkeys(("left", "a"), lambda view: view._aside(-_SIDE)),
    **dict.fromkeys(("right", "d"), lambda view: view._aside(_SIDE)),
    **dict.fromkeys(("n", "pagedown"), lambda view: view._turn(1)),
    **dict.fromkeys(("p", "pageup"), lambda view: view._turn(-1)),
    **dict.fromkeys(("l", "end"), lambda view: view._select(view.snapshot.count - 1)),
    "home": lambda view: view._select(0),
    **dict.fromkeys(("o", "enter"), View._open),
    "g": lambda view: view._ask(Asked.PAGE),
    "/": lambda view: view._ask(Asked.SEARCH),
    " ": View._pause,
    "c-z": View._put_aside,
    "+": lambda view: view._change_interval(1),
    "-": lambda view: view._change_interval(-1),
}
_NAMED = {key for key in _KEYS if len(key) > 1}
