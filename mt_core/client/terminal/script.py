"""A script of statements, run one after the other on a gateway."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import IO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar

from mt_core.client.http import GatewayClient, GatewayRefused
from mt_core.client.pages import Progress, ResultPage
from mt_core.client.session import session_change
from mt_core.client.terminal.columnar_file import ColumnarFile
from mt_core.client.terminal.display import Display, ResultMode
from mt_core.client.terminal.form import Form
from mt_core.client.terminal.result import print_result
from mt_core.errors import GatewayError, MtError, Unsupported
from mt_core.tokens import Statement, significant, split_statements

_CHANGES_DISPLAY = {"SET", "RESET"}
_READS = {"SELECT", "WITH", "VALUES", "TABLE", "FROM", "(", "INSERT"}


@dataclass(frozen=True, kw_only=True)
class Screen:
    """Where the results and the messages of statements go; without a form, the session's result mode says how rows look.

    With a `file`, the rows of a query go there instead.
    """

    out: IO[str]
    messages: Console
    form: Form | None = None
    file: ColumnarFile | None = None

    def show_error(self, error: MtError, *, prefix: str = "", verbose: bool = False) -> None:
        """Print *error*, with its code and facts if *verbose*."""
        self.messages.print(f"[red]Error:[/red] {escape(prefix + str(error))}", soft_wrap=True)
        if verbose:
            facts = " ".join(f"{name}={fact}" for name, fact in {"code": error.code, **error.facts}.items())
            self.messages.print(escape(facts), soft_wrap=True, style="dim")


class Runner:
    """Runs statements in the session of *client* and shows what they give."""

    def __init__(self, client: GatewayClient, screen: Screen) -> None:
        self.client, self.screen = client, screen
        self._display: Display | None = None

    @property
    def display(self) -> Display:
        """What the session asks of the client; raises GatewayError, or ConfigError naming a property."""
        if self._display is None:
            self._display = Display.of(self.client.properties())
        return self._display

    def run_script(self, script: str, *, go_on: bool = False) -> MtError | None:
        """Run the statements of *script* up to the first error, or all if *go_on*; return the first error, which is shown.

        Raises SqlSyntaxError, before it runs any, if the statements cannot be told from each other.
        """
        first_error = None
        for number, statement in enumerate(split_statements(script), start=1):
            try:
                self.run(statement.text)
            except MtError as error:
                first_line = statement.text.partition("\n")[0]
                self.show_error(error, prefix=f"Statement {number} ({first_line}) failed: ")
                first_error = first_error or error
                if not go_on or isinstance(error, GatewayRefused):
                    break
        return first_error

    def show_error(self, error: MtError, *, prefix: str = "") -> None:
        """Print *error* as the session asks for it."""
        verbose = self._display is not None and self._display.verbose
        self.screen.show_error(error, prefix=prefix, verbose=verbose)

    def run(self, statement: str) -> None:
        """Run one statement and show its rows; when interrupted, or when nobody reads them, it is cancelled on the gateway."""
        display, started = self.display, time.monotonic()
        operation = self.client.execute(statement)
        try:
            self._show(operation, display)
        except KeyboardInterrupt:
            self._cancel(operation)
            raise
        except BrokenPipeError:
            with suppress(GatewayError):
                self.client.cancel(operation)
            raise
        self.client.close_operation(operation)
        if (session_change(statement) or "").partition(" ")[0].upper() in _CHANGES_DISPLAY:
            self._display = None
        if display.time_cost and self.screen.messages.is_terminal:
            self.screen.messages.print(f"{time.monotonic() - started:.2f} s", style="dim")

    def _show(self, operation: str, display: Display) -> None:
        pages, file = self._result(operation, display), self.screen.file
        if file is None:
            print_result(pages, self._form(display), self.screen.out, display.column_width)
        elif next(pages).is_query:
            count = file.write(self.client, operation)
            self.screen.messages.print(
                f"{count} row{'' if count == 1 else 's'} in {escape(str(file.path))}", soft_wrap=True
            )

    def _cancel(self, operation: str) -> None:
        try:
            self.client.cancel(operation)
        except GatewayError as error:
            self.screen.messages.print(f"The statement could not be cancelled: {escape(str(error))}")
        else:
            self.screen.messages.print("Cancelled.")

    def _form(self, display: Display) -> Form:
        if self.screen.form is not None:
            return self.screen.form
        return Form.TABLE if display.mode is ResultMode.TABLE else Form.TABLEAU

    def _result(self, operation: str, display: Display) -> Iterator[ResultPage]:
        """Yield the pages of a result; its progress and its warnings are shown before the first one."""
        pages = self._pages(operation)
        first = next(pages)
        if (
            first.is_query
            and display.mode is ResultMode.CHANGELOG
            and self.screen.form is None
            and not display.streaming
        ):
            raise Unsupported(
                "The result mode changelog shows the changes of a query in streaming mode; in batch mode, "
                "SET 'sql-client.execution.result-mode' = 'table' or 'tableau'."
            )
        for warning in first.warnings:
            self.screen.messages.print(f"[yellow]Warning:[/yellow] {escape(warning)}", soft_wrap=True)
        yield first
        if self._form(display) is Form.TABLE and first.kinds is None:
            yield from self._window(len(first.rows), pages, display.most_rows)
        else:
            yield from pages

    def _window(self, count: int, pages: Iterator[ResultPage], most_rows: int) -> Iterator[ResultPage]:
        """Yield *pages* up to *most_rows* rows in all, of which *count* are known, and say if there are more."""
        for page in pages:
            if count + len(page.rows) > most_rows:
                yield replace(page, rows=page.rows[: max(0, most_rows - count)])
                self.screen.messages.print(
                    f"The table has the first {most_rows} rows of more: SET 'sql-client.execution.max-table-result.rows', "
                    "or --format csv, for others.",
                    soft_wrap=True,
                )
                return
            count += len(page.rows)
            yield page

    def _pages(self, operation: str) -> Iterator[ResultPage]:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f} tasks"),
            TimeElapsedColumn(),
        )
        messages = self.screen.messages
        with ProgressBar(*columns, console=messages, transient=True, disable=not messages.is_terminal) as bar:
            task = bar.add_task("", start=False, total=None, visible=False)

            def show(progress: Progress) -> None:
                text, total = escape(progress.message), progress.total or None
                bar.start_task(task)
                bar.update(task, description=text, completed=progress.done, total=total, visible=True)

            pages = self.client.pages(operation, show)
            first = next(pages)
        yield first
        yield from pages


def first_read(script: str) -> Statement | None:
    """Return the first statement of *script* that is a query or an INSERT, which a file of settings must not have."""
    for statement in split_statements(script):
        token = next(significant(statement.text))
        if (token.keyword or token.text) in _READS:
            return statement
    return None
