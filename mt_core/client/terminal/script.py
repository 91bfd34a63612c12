"""A script of statements, run one after the other on a gateway, stopping at the first error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar

from mt_core.client.http import GatewayClient, Progress, ResultPage
from mt_core.client.terminal.table import Format, print_result
from mt_core.errors import GatewayError
from mt_core.tokens import split_statements


def run_script(client: GatewayClient, script: str, form: Format, out: IO[str], messages: Console) -> None:
    """Run the statements of *script*; raises SqlSyntaxError, or GatewayError naming the statement that failed."""
    for number, statement in enumerate(split_statements(script), start=1):
        try:
            run_statement(client, statement.text, form, out, messages)
        except GatewayError as cause:
            first_line = statement.text.partition("\n")[0]
            raise GatewayError(
                f"Statement {number} ({first_line}) failed: {cause}", code=cause.code, facts=cause.facts
            ) from cause


def run_statement(client: GatewayClient, statement: str, form: Format, out: IO[str], messages: Console) -> None:
    """Run one statement and print its rows to *out*; when interrupted it is cancelled on the gateway."""
    operation = client.execute(statement)
    try:
        print_result(_shown_pages(client, operation, messages), form, out)
    except KeyboardInterrupt:
        _cancel(client, operation, messages)
        raise
    client.close_operation(operation)


def _shown_pages(client: GatewayClient, operation: str, messages: Console) -> Iterator[ResultPage]:
    with _progress_bar(messages) as bar:
        pages = client.pages(operation, bar.show)
        first = next(pages)
    for warning in first.warnings:
        messages.print(f"[yellow]Warning:[/yellow] {escape(warning)}", soft_wrap=True)
    yield first
    yield from pages


class _Bar:
    """The progress of one operation, drawn once there is some to draw."""

    def __init__(self, bar: ProgressBar) -> None:
        self._bar = bar
        self._task: TaskID | None = None

    def show(self, progress: Progress) -> None:
        total = progress.total or None
        if self._task is None:
            self._task = self._bar.add_task(progress.message, total=total)
        self._bar.update(self._task, completed=progress.done, total=total, description=escape(progress.message))


@contextmanager
def _progress_bar(messages: Console) -> Iterator[_Bar]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f} tasks"),
        TimeElapsedColumn(),
    )
    with ProgressBar(*columns, console=messages, transient=True, disable=not messages.is_terminal) as bar:
        yield _Bar(bar)


def _cancel(client: GatewayClient, operation: str, messages: Console) -> None:
    try:
        client.cancel(operation)
    except GatewayError as error:
        messages.print(f"The statement could not be cancelled: {escape(str(error))}")
    else:
        messages.print("Cancelled.")
