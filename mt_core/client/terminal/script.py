"""A script of statements, run one after the other on a gateway, stopping at the first error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar

from mt_core.client.http import GatewayClient
from mt_core.client.pages import Progress, ResultPage
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
        try:
            client.cancel(operation)
        except GatewayError as error:
            messages.print(f"The statement could not be cancelled: {escape(str(error))}")
        else:
            messages.print("Cancelled.")
        raise
    client.close_operation(operation)


def _shown_pages(client: GatewayClient, operation: str, messages: Console) -> Iterator[ResultPage]:
    """Yield the pages of a result; its progress and its warnings are shown before the first one."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f} tasks"),
        TimeElapsedColumn(),
    )
    with ProgressBar(*columns, console=messages, transient=True, disable=not messages.is_terminal) as bar:
        task = bar.add_task("", start=False, total=None, visible=False)

        def show(progress: Progress) -> None:
            text, total = escape(progress.message), progress.total or None
            bar.start_task(task)
            bar.update(task, description=text, completed=progress.done, total=total, visible=True)

        pages = client.pages(operation, show)
        first = next(pages)
    for warning in first.warnings:
        messages.print(f"[yellow]Warning:[/yellow] {escape(warning)}", soft_wrap=True)
    yield first
    yield from pages
