"""The view of a result: the lines on the screen, and the effect of each key.

The view is a state machine without a terminal: `press` takes a key and `lines` returns the screen. Tests
therefore need neither prompt_toolkit nor real time. A result may be unbounded, so the view never waits for
rows. It shows a `Snapshot`, which does not change, and replaces it at each refresh interval. All positions
(`top`, `selected`) count rows of the snapshot, or of `order` if the rows are sorted or filtered. When a new
snapshot has dropped rows, positions are shifted by their number. Work on all rows (search, sort, filter,
save) could take a long time for a million rows. It is therefore a generator (`_Work`) that `work_on` advances
between two keys. Any key stops it and leaves the view as it was before. Up to `_AT_ONCE` rows are searched or
sorted before the next key is read, so that the usual case is immediate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from rich.cells import set_cell_size

from mt_core.base.plural import plural
from mt_core.errors import MtError
from mt_core.terminal.output.texts import Row
from mt_core.terminal.viewer.arrangement import READ_AT_ONCE, Arrangement, column_named, has_text
from mt_core.terminal.viewer.copied_rows import FORMS, CopiedRows, Properties
from mt_core.terminal.viewer.live_result import LiveResult, Snapshot
from mt_core.terminal.viewer.view_lines import (
    MORE_BEFORE,
    Line,
    RowLines,
    fitted_widths,
    framed,
    grid_line,
    rule,
    whole_columns,
)

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
# The number of rows that are processed before the next key is read. Most results have fewer rows.
_AT_ONCE = 20_000
_SIDE = 1
# The most important keys come first, because a narrow screen cuts the line.
_KEYS_OF_GRID = (
    "Q leave  arrows move  N/P page  / search  T sort  F filter  C copy  V save  O open row  G go to page  "
    "L end  Space pause  R refresh  +/- interval"
)
_KEYS_OF_ROW = "Q, Esc back  arrows move  C copy"


class Asked(StrEnum):
    """The questions that the last line asks."""

    PAGE = "Go to page: "
    SEARCH = "Search: "
    SORT = "Sort by column (-column: descending; empty: order of arrival): "
    FILTER = "Rows with (empty: all rows): "
    SAVE = f"Save to a file ({', '.join(FORMS)}): "


@dataclass(frozen=True, kw_only=True)
class _Work:
    """Work on many rows.

    Its `steps` yield the number of rows done, and the user can stop it between two of them. `progress`
    returns a message about that number, and `ended` is the message after the work was stopped. `is_refresh`
    tells whether the work shows rows that have arrived since.
    """

    steps: Generator[int]
    progress: Callable[[int], str]
    ended: str
    is_refresh: bool = False


@dataclass(kw_only=True)
class View:
    """A screen with rows of `result`.

    `has_left` is True after the user has left the view, `is_put_aside` after it went to the background.
    `selected` is the row of the cursor and `top` the first row on the screen. Both are positions in
    `snapshot`, or in `order` if its rows have an `arrangement`. `left` is the first column. `page_lines` and
    `width` are those of the screen when it was last drawn. `properties` returns those of the session. `began`
    is when the statement began on the clock `now`. `copied` is a string for the clipboard.
    """

    title: str
    result: LiveResult
    column_width: int
    properties: Properties = dict
    now: Callable[[], float] = time.monotonic
    began: float | None = None
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
    notice: str = ""
    copied: bytes | None = None
    arrangement: Arrangement = field(default_factory=Arrangement)
    order: Sequence[int] | None = None
    row: RowLines | None = None
    widths: list[int] = field(default_factory=list)
    worked: int = 0
    _work: _Work | None = None
    _newest_at: float | None = None

    def __post_init__(self) -> None:
        self.snapshot = self.result.snapshot()
        self.selected = max(0, self.count - 1) if self.result.is_followed else 0
        self.began = self.now() if self.began is None else self.began
        self._newest_at = self.now() if self.snapshot.came else None

    @property
    def count(self) -> int:
        """The number of rows in the view."""
        return self.snapshot.count if self.order is None else len(self.order)

    @property
    def refresh_s(self) -> float | None:
        """The number of seconds between two snapshots.

        None while the current snapshot must not change, or if it is the last one.
        """
        is_busy = self.asked is not None or self.row is not None or self.is_working
        if self.is_paused or is_busy or self.snapshot.has_ended:
            return None
        # Sorting all rows every second would cost too much. Sort them when all have arrived, or on R.
        if self.order is not None and not self.result.has_ended:
            return None
        return INTERVALS[self.interval][1]

    def refresh(self) -> None:
        """Show the current rows.

        If the cursor is on the newest row, it follows new rows. If not, it stays on its row.
        """
        at_end = self.result.is_followed and self.selected >= self.count - 1
        before = self.snapshot
        newest = self.result.snapshot(kept=None if self.order is None else before)
        if newest.came > before.came:
            self._newest_at = self.now()
        if self.order is not None:
            # The previous rows stay visible until the new ones are sorted.
            self._arrange(self.arrangement, newest, selected=self.selected)
            return
        self.snapshot = newest
        moved = self.snapshot.left_out - before.left_out
        self.top = max(0, self.top - moved)
        self._select(self.count - 1 if at_end else self.selected - moved)

    def press(self, key: str) -> None:
        """Handle *key*, which is a prompt_toolkit key name, or typed or pasted text."""
        self.notice = ""
        if self._work is not None:
            self.notice = self._work.ended
            self._work.steps.close()
            # A refresh that the user stopped must not restart at the next interval.
            if key in {"escape", "c-c"} and self._work.is_refresh:
                self.is_paused = True
            self._work = None
            if key in {"escape", "c-c"}:
                return
        if self.asked is not None:
            self._answer(key)
        elif self.row is not None:
            self._press_on_row(key)
        elif (action := _KEYS.get(key if len(key) > 1 else key.lower())) is not None:
            action(self)

    @property
    def is_working(self) -> bool:
        """Whether `work_on` must be called, because a search, a sort or a file is not finished."""
        return self._work is not None

    def work_on(self) -> None:
        """Process the next rows. Between two calls, the user can stop the work."""
        if self._work is None:
            return
        try:
            worked = next(self._work.steps, None)
        except MtError as error:
            worked, self.notice = None, " ".join(str(error).split())
        if worked is None:
            self._work = None
        else:
            self.worked = worked

    def _begin(self, work: _Work) -> None:
        self._work, self.worked = work, 0
        self.work_on()

    def _begin_at_once(self, work: _Work) -> None:
        """Begin *work* and process up to `_AT_ONCE` rows before the next key."""
        self._begin(work)
        while self.is_working and self.worked < _AT_ONCE:
            self.work_on()

    # --------------------------------------------------------------------------------------------- the screen

    def lines(self, width: int, height: int) -> list[Line]:
        """Return the screen: *height* lines that fit in *width* columns."""
        self.page_lines, self.width = max(1, height - FRAME_LINES), width
        if self.row is not None:
            body = self.row.lines(width, height - 2)
            status = f"row {self._number(self.selected)}"
        else:
            body, status = self._grid(width), self._status()
        body += [[] for _ in range(height - 2 - len(body))]
        title: Line = [("class:view-title", set_cell_size(f"{status}  {self.title}", width))]
        return [title, *body[: height - 2], self._foot(width)]

    def _grid(self, width: int) -> list[Line]:
        self._scroll()
        columns = self.result.columns
        rows = self._rows(self.top, self.top + self.page_lines)
        self.widths = fitted_widths(columns, rows, self.widths, (width, self.column_width))
        self._aside(0)
        lines = [
            grid_line(
                columns, [column.name for column in columns], self.widths, self.left, "class:view-names"
            )
        ]
        lines.append(rule(self.widths, self.left))
        for number, row in enumerate(rows, start=self.top):
            style = "class:view-selected" if number == self.selected else ""
            lines.append(grid_line(columns, row, self.widths, self.left, style))
        return framed(lines, width, before=self.left > 0, after=self._last_column < len(columns))

    def printed(self) -> list[str]:
        """Return the current page as lines of text: column names and rows."""
        return (
            ["".join(text for _, text in line).rstrip() for line in self._grid(self.width)]
            if self.count
            else []
        )

    def _rows(self, start: int, stop: int) -> list[Row]:
        return self.snapshot.read(start, stop, self.order)

    def _number(self, row: int) -> int:
        """Return the row number to show, counted from 1 in all arrived rows, or in the arranged rows."""
        return row + 1 + (self.snapshot.left_out if self.order is None else 0)

    @property
    def _last_column(self) -> int:
        """The number, from 1, of the last completely visible column.

        If no column fits completely, this is the first visible column.
        """
        return self.left + max(1, whole_columns(self.widths, self.left, self._room))

    @property
    def _room(self) -> int:
        return self.width - (len(MORE_BEFORE) if self.left else 0)

    def _status(self) -> str:
        taken = self.snapshot
        page, pages = self.top // self.page_lines + 1, max(1, -(-self.count // self.page_lines))
        parts = [f"row {self._number(self.selected) if self.count else 0} of {self._number(self.count - 1)}"]
        parts.append(f"page {page} of {pages}")
        parts += self._arranged()
        if self.left or self._last_column < len(self.result.columns):
            parts.append(f"columns {self.left + 1}-{self._last_column} of {len(self.result.columns)}")
        if taken.left_out:
            parts.append(f"the last {taken.count} {plural(taken.count, 'row')}")
        if taken.more:
            parts.append(f"the first {taken.count} {plural(taken.count, 'row')} of more")
        elif taken.error is not None:
            parts.append("failed")
        elif taken.has_ended:
            parts.append("all rows")
        else:
            parts += [
                "paused" if self.is_paused else f"refresh {INTERVALS[self.interval][0]}",
                self._sign_of_life(),
            ]
        return " | ".join(parts)

    def _arranged(self) -> list[str]:
        """Describe the filter, the order, and whether all rows were available for them."""
        if self.order is None:
            return []
        parts, wanted = list[str](), self.arrangement
        if wanted.text:
            parts.append(f"with {wanted.text}")
        if wanted.by is not None:
            name = self.result.columns[wanted.by].name
            parts.append(f"by {name}{', descending' if wanted.descending else ''}")
        if wanted.text or not self.snapshot.has_ended:
            rows = plural(self.snapshot.count, "row")
            parts.append(
                f"of {self.snapshot.count} {rows}{'' if self.snapshot.has_ended else ' so far, R for more'}"
            )
        return [", ".join(parts)] if parts else []

    def _sign_of_life(self) -> str:
        """Return a message that says for how long rows have been arriving."""
        assert self.began is not None
        since = f"{self.now() - self.began:.0f} s"
        if self.is_paused or self.order is not None:
            # Newer rows may have arrived that this snapshot does not show.
            return since
        if self._newest_at is None:
            return f"starting, {since}"
        return f"{since}, new rows {self.now() - self._newest_at:.0f} s ago"

    def _foot(self, width: int) -> Line:
        if self.asked is not None:
            return [("", f"{self.asked}{self.answer}"[-width:])]
        if self._work is not None:
            return [("class:view-notice", self._work.progress(self.worked)[:width])]
        if self.notice:
            return [("class:view-notice", self.notice[:width])]
        if self.snapshot.error is not None:
            return [("class:view-notice", " ".join(str(self.snapshot.error).split())[:width])]
        return [("class:view-keys", (_KEYS_OF_GRID if self.row is None else _KEYS_OF_ROW)[:width])]

    def _scroll(self) -> None:
        """Scroll so that the cursor is on the screen."""
        self._select(self.selected)
        least = self.selected - self.page_lines + 1
        self.top = max(0, min(max(self.top, least), self.selected))

    # ----------------------------------------------------------------------------------------------- the keys

    def _select(self, row: int) -> None:
        self.selected = max(0, min(row, self.count - 1))

    def _turn(self, pages: int) -> None:
        self.top = max(0, min(self.top + pages * self.page_lines, self.count - 1))
        self._select(self.top)

    def _aside(self, columns: int) -> None:
        """Scroll by *columns*, but not further than until the last column is completely visible."""
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
        if self.count:
            [row] = self._rows(self.selected, self.selected + 1)
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
            case "c":
                self._copy(CopiedRows(snapshot=self.snapshot, order=[self._position(self.selected)]))

    def _answer(self, key: str) -> None:
        match key:
            case "escape" | "c-c":
                self.asked = None
            case "backspace":
                self.answer = self.answer[:-1]
            case "enter":
                asked, self.asked = self.asked, None
                if asked is not None:
                    _ANSWERS[asked](self, self.answer)
            case _ if key.isprintable() and key not in _NAMED:
                self.answer += key

    def _go_to(self, page: str) -> None:
        if not page.strip().isdecimal():
            self.notice = f"'{page}' is not a page number."
            return
        self.top = 0
        self._turn(max(0, int(page) - 1))

    def _search(self, text: str) -> None:
        """Select the next row that contains *text*, ignoring case.

        If *text* is empty, search for the previous text. The search wraps around.
        """
        self.sought = text or self.sought
        if self.sought:
            sought = self.sought
            self._begin_at_once(
                _Work(
                    steps=self._search_steps(),
                    progress=lambda count: (
                        f"{count} {plural(count, 'row has', 'rows have')} no {sought}. "
                        "Ctrl-C stops the search."
                    ),
                    ended="The search was stopped.",
                )
            )

    def _search_steps(self) -> Generator[int]:
        """Select the first match. Yield the number of rows searched so far."""
        sought, searched = self.sought.casefold(), 0
        for start, stop in ((self.selected + 1, self.count), (0, self.selected + 1)):
            for begin in range(start, stop, READ_AT_ONCE):
                rows = self._rows(begin, min(begin + READ_AT_ONCE, stop))
                for number, row in enumerate(rows, start=begin):
                    if has_text(row, sought):
                        self._select(number)
                        return
                searched += len(rows)
                yield searched
        self.notice = f"No row has {self.sought}."

    def _sort(self, name: str) -> None:
        """Sort the rows by the column *name*, in descending order if a minus precedes it.

        An empty name restores the order of arrival.
        """
        name = name.strip()
        by = column_named(self.result.columns, name.removeprefix("-")) if name else None
        if name and by is None:
            self.notice = (
                f"There is no column {name.removeprefix('-')}; T takes a name, its beginning, or a number."
            )
            return
        self._arrange(replace(self.arrangement, by=by, descending=name.startswith("-")), self.snapshot)

    def _filter(self, text: str) -> None:
        """Show only the rows that contain *text*, ignoring case, or all rows if it is empty."""
        self._arrange(replace(self.arrangement, text=text), self.snapshot)

    def _arrange(self, wanted: Arrangement, taken: Snapshot, selected: int = 0) -> None:
        """Show the rows of *taken* arranged as *wanted*, with the cursor on row *selected*."""
        is_refresh, are = taken is not self.snapshot, plural(taken.count, "row is", "rows are")
        self._begin_at_once(
            _Work(
                steps=self._arranging(wanted, taken, selected),
                progress=lambda count: f"{count} of {taken.count} {are} read. Ctrl-C stops.",
                ended=f"The rows are unchanged{'; R adds the new ones.' if is_refresh else '.'}",
                is_refresh=is_refresh,
            )
        )

    def _arranging(self, wanted: Arrangement, taken: Snapshot, selected: int) -> Generator[int]:
        order = None if wanted.changes_nothing else (yield from wanted.positions(taken))
        self.snapshot, self.arrangement, self.order, self.top = taken, wanted, order, 0
        self._select(selected)
        if wanted.text and not order:
            self.notice = f"No row has {wanted.text}; F and Enter show all rows."

    def _position(self, row: int) -> int:
        return row if self.order is None else self.order[row]

    def _copy(self, taken: CopiedRows) -> None:
        if not taken.count:
            self.notice = "There are no rows to copy."
            return
        text, count = taken.copied()
        if not count:
            self.notice = "The row is too large for the clipboard; V saves it."
            return
        self.copied = text
        if count == taken.count:
            self.notice = f"{count} {plural(count, 'row')} copied."
        else:
            self.notice = (
                f"{plural(count, 'The first', f'The first {count}')} of {taken.count} rows copied, "
                "as many as the clipboard takes; V saves all."
            )

    def _save(self, name: str) -> None:
        if not name.strip():
            return
        name, taken = name.strip(), CopiedRows(snapshot=self.snapshot, order=self.order)
        rows, are = plural(taken.count, "row"), plural(taken.count, "row is", "rows are")

        def say(path: Path) -> None:
            so_far = "" if taken.snapshot.has_ended else " so far"
            self.notice = f"{taken.count} {rows}{so_far} in {path}"

        self._begin(
            _Work(
                steps=taken.saved(name, self.properties, say),
                progress=lambda count: f"{count} of {taken.count} {are} written. Ctrl-C stops.",
                ended=f"{name} was not written.",
            )
        )


_KEYS: Mapping[str, Callable[[View], None]] = {
    **dict.fromkeys(("q", "escape", "c-c"), View._leave),
    **dict.fromkeys(("r", "f5"), View.refresh),
    **dict.fromkeys(("up", "w"), lambda view: view._select(view.selected - 1)),
    **dict.fromkeys(("down", "s"), lambda view: view._select(view.selected + 1)),
    **dict.fromkeys(("left", "a"), lambda view: view._aside(-_SIDE)),
    **dict.fromkeys(("right", "d"), lambda view: view._aside(_SIDE)),
    **dict.fromkeys(("n", "pagedown"), lambda view: view._turn(1)),
    **dict.fromkeys(("p", "pageup"), lambda view: view._turn(-1)),
    **dict.fromkeys(("l", "end"), lambda view: view._select(view.count - 1)),
    "home": lambda view: view._select(0),
    **dict.fromkeys(("o", "enter"), View._open),
    "g": lambda view: view._ask(Asked.PAGE),
    "/": lambda view: view._ask(Asked.SEARCH),
    "t": lambda view: view._ask(Asked.SORT),
    "f": lambda view: view._ask(Asked.FILTER),
    "v": lambda view: view._ask(Asked.SAVE),
    "c": lambda view: view._copy(CopiedRows(snapshot=view.snapshot, order=view.order)),
    " ": View._pause,
    "c-z": View._put_aside,
    "+": lambda view: view._change_interval(1),
    "-": lambda view: view._change_interval(-1),
}
_ANSWERS: Mapping[Asked, Callable[[View, str], None]] = {
    Asked.PAGE: View._go_to,
    Asked.SEARCH: View._search,
    Asked.SORT: View._sort,
    Asked.FILTER: View._filter,
    Asked.SAVE: View._save,
}
_NAMED = {key for key in _KEYS if len(key) > 1}
