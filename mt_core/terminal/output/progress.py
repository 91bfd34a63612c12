"""The status line of a terminal, which shows the progress of a statement or of writing its rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.markup import escape

from mt_core.base.plural import plural

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as ProgressBar

    from mt_core.client.pages import Progress


class ProgressLine:
    """One line of a terminal, updated by each call. It is not shown if messages go to a file."""

    def __init__(self, bar: ProgressBar, began: float | None = None) -> None:
        self._bar = bar
        self._task = bar.add_task("", start=False, total=None, visible=False, counted="")
        bar.tasks[0].start_time = began

    def statement(self, progress: Progress) -> None:
        """Show how many Spark tasks have completed, and how many rows they have read."""
        tasks = (
            [f"{progress.done:,} of {progress.total:,} {plural(progress.total, 'task')}"]
            if progress.total
            else []
        )
        rows = (
            [f"{progress.rows_read:,} {plural(progress.rows_read, 'row')} read"] if progress.rows_read else []
        )
        self._show(progress.message, ", ".join(tasks + rows), progress.done, progress.total or None)

    def rows(self, count: int) -> None:
        """Show how many rows have been written."""
        self._show("writing", f"{count:,} {plural(count, 'row')}", 0, None)

    def coming(self, count: int) -> None:
        """Show how many rows, or changes of rows, have arrived."""
        self._show(
            "waiting for rows" if count else "starting", f"{count:,} {plural(count, 'row')} so far", 0, None
        )

    def _show(self, message: str, counted: str, done: int, total: int | None) -> None:
        self._bar.start_task(self._task)
        self._bar.update(
            self._task,
            description=escape(message),
            counted=counted,
            completed=done,
            total=total,
            visible=True,
        )


@contextmanager
def progress_line(messages: Console, began: float | None = None) -> Iterator[ProgressLine]:
    """Yield a status line that is removed at the end of the block.

    Its time counts from *began* on the monotonic clock or, if *began* is None, from the first update.
    """
    # Imported here, with the first statement, so that it does not delay the prompt.
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[counted]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=messages, transient=True, disable=not messages.is_terminal) as bar:
        yield ProgressLine(bar, began)
