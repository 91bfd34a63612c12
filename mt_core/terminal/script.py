"""Scripts: statements that run one after the other on a gateway.

A statement is an operation on the gateway, which returns each page of its result only once. The client
therefore never starts a page again. `Runner._attend` owns the operation. If anything interrupts it (Ctrl-C, a
closed pipe, a client error), it cancels or closes the operation on the gateway. Only Ctrl-Z leaves the
operation running, as a `Work` in the background. Keys pressed while a statement is being sent are deferred,
because it cannot be cancelled before it has an operation.

A result goes to one of four places, chosen from its first page: a columnar file, the viewer, the printed
output, or only its row count. Printed tables have up to `most_rows` rows, as in Flink's client. This also
limits the memory for the standing rows of a changelog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import IO, Any, Protocol

from rich.console import Console
from rich.markup import escape

from mt_core.base.plural import plural
from mt_core.base.secrets import statement_text
from mt_core.base.statement.error_place import parted, without_place
from mt_core.base.statement.session_changes import session_change
from mt_core.base.tokens import Statement, significant, split_statements
from mt_core.client.http import GatewayClient, GatewayRefused
from mt_core.client.pages import ResultPage
from mt_core.client.writes import is_of_a_write
from mt_core.errors import ConfigError, GatewayError, MtError, Unsupported
from mt_core.terminal.background import Background, Look, PutAside, Work, ctrl_z_refused, keys_held_back
from mt_core.terminal.display import Display, ResultMode
from mt_core.terminal.error_place import place_of
from mt_core.terminal.output.columnar_file import ColumnarFile
from mt_core.terminal.output.described import without_empty_columns
from mt_core.terminal.output.form import Form
from mt_core.terminal.output.progress import progress_line
from mt_core.terminal.output.result import print_result
from mt_core.terminal.output.standing_rows import standing_page

_CHANGES_DISPLAY = {"SET", "RESET"}
_SHORT = (["SHOW", "REFRESHES"], ["SHOW", "MATERIALIZED", "TABLES"])
_LONG = {"EXTENDED", "BATCHES"}
_RUNS_PLANS = {"EXECUTE", "COMPILE"}
_READS = {"SELECT", "WITH", "VALUES", "TABLE", "FROM", "(", "INSERT"}


@dataclass(frozen=True, kw_only=True)
class Screen:
    """Where results and messages are printed.

    If `form` is None, the result mode of the session decides the format of rows. If `file` is given, the rows
    of a query are written to it.
    """

    out: IO[str]
    messages: Console
    form: Form | None = None
    file: ColumnarFile | None = None

    def show_error(
        self, error: MtError, *, prefix: str = "", statement: str = "", verbose: bool = False
    ) -> None:
        """Print *error*, its position in *statement* if it has one, and its code and facts if *verbose*.

        On a terminal, the remedy is on a line of its own, and a position that is marked is not repeated in
        words.
        """
        place, text = place_of(error, statement, self.messages.width), str(error)
        what, way_out = (
            parted(without_place(text) if place else text) if self.messages.is_terminal else (text, "")
        )
        self.messages.print(f"[red]Error:[/red] {escape(prefix + what)}", soft_wrap=True)
        for line in place:
            self.messages.print(
                escape(line), soft_wrap=True, style="bold" if line.strip(" ^") == "" else None
            )
        if way_out:
            self.messages.print(escape(way_out), soft_wrap=True)
        if verbose:
            facts = {"code": error.code, **error.facts}
            if isinstance(error, GatewayError) and error.request_id is not None:
                facts["request_id"] = error.request_id
            shown = " ".join(f"{name}={fact}" for name, fact in facts.items())
            self.messages.print(escape(shown), soft_wrap=True, style="dim")


class Viewer(Protocol):
    """Opens an interactive view of a result."""

    def open(
        self, work: Work, pages: Iterable[ResultPage], properties: Callable[[], Mapping[str, str]]
    ) -> Iterable[ResultPage] | Look:
        """Return a view of *pages*, the result of *work*, or the pages if they should be printed.

        *properties* returns those of the session.
        """


class Runner:
    """Runs statements in the session of *client* and shows their results.

    Results are shown in *viewer* unless they must be printed. *await_session* is called before each statement
    and returns when the session is open; until then, *initial* contains the display options.
    """

    def __init__(
        self,
        client: GatewayClient,
        screen: Screen,
        viewer: Viewer | None = None,
        *,
        await_session: Callable[[], object] = lambda: None,
        initial: Display | None = None,
    ) -> None:
        self.client, self.screen, self.viewer = client, screen, viewer
        self._await_session, self._initial = await_session, initial or Display()
        self.background = Background()
        self._display: Display | None = None
        self._displayed_session = ""

    @property
    def display(self) -> Display:
        """The display options of the session. Raises GatewayError, or ConfigError naming a property."""
        self._await_session()
        session = self.client.session
        if self._display is None or session != self._displayed_session:
            self._display, self._displayed_session = Display.of(self.client.properties()), session
        return self._display

    @property
    def typing_display(self) -> Display:
        """The display options while a statement is typed; no session is needed.

        Raises the errors of `display`.
        """
        return self.display if self.client.has_session else self._display or self._initial

    def run_script(self, script: str, *, go_on: bool = False) -> MtError | None:
        """Run the statements of *script* up to the first error, or all of them if *go_on* is set.

        Return the first error, which has been shown. An unreachable gateway stops the script, and its error
        replaces an earlier one. Raises GatewayError if no session can be opened. Raises SqlSyntaxError before
        running anything if the script cannot be split into statements.
        """
        self._await_session()
        first_error = None
        for number, statement in enumerate(split_statements(script), start=1):
            try:
                self.run(statement.text)
            except MtError as error:
                first_line = statement_text(statement.text, len(statement.text)).partition("\n")[0]
                prefix = f"Statement {number} ({first_line}) failed: "
                self.show_error(error, prefix=prefix, statement=statement.text)
                if isinstance(error, GatewayRefused):
                    return error
                first_error = first_error or error
                if not go_on:
                    break
        return first_error

    def show_error(self, error: MtError, *, prefix: str = "", statement: str = "") -> None:
        """Print *error* of *statement*, with details if the session is verbose."""
        verbose = self._display is not None and self._display.verbose
        self.screen.show_error(error, prefix=prefix, statement=statement, verbose=verbose)

    def run(self, statement: str) -> None:
        """Run one statement and show its rows. An interrupt or a closed pipe cancels it on the gateway."""
        changes_display = (session_change(statement) or "").partition(" ")[0].upper() in _CHANGES_DISPLAY
        display = self._initial
        # SET and RESET must work even if an invalid property makes the display options unavailable.
        with suppress(ConfigError) if changes_display else nullcontext():
            display = self.display
        with keys_held_back() as held:
            operation = self.client.execute(statement)
        self._attend(Work(statement=statement, operation=operation, display=display), held)
        if changes_display:
            self._display = None

    def resume(self, number: str) -> None:
        """Show a statement of the background as if it had just started.

        Raises RequestInvalid for an unknown number.
        """
        self._attend(self.background.take(number))

    def _attend(self, work: Work, held: Sequence[type[BaseException]] = ()) -> None:
        """Show the rows of *work* and close it, unless it is put in the background.

        The deferred keys *held* are raised first.
        """
        try:
            for raised in held:
                raise raised
            is_timed = self._show(work)
        except PutAside:
            number = self.background.put(work)
            self._say(rf"[{number}] continues in the background; \fg {number} shows it, \jobs lists all.")
            return
        except KeyboardInterrupt:
            self._cancel(work.operation)
            raise
        except BrokenPipeError:
            with suppress(GatewayError):
                self.client.cancel(work.operation)
            raise
        except MtError as error:
            # After a gateway error the statement has failed on the gateway. After any other error it would
            # keep running unattended.
            if not isinstance(error, GatewayError):
                with suppress(GatewayError):
                    self.client.close_operation(work.operation)
            raise
        self.client.close_operation(work.operation)
        facts = [] if work.written is None else [f"{_rows(work.written)} written"]
        if is_timed and self.screen.messages.is_terminal and work.display.time_cost:
            facts.append(f"{work.seconds:.2f} s")
        if facts:
            self.screen.messages.print(", ".join(facts), style="dim")

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Run one statement and return its rows, keyed by column name, without showing them."""
        self._await_session()
        operation = self.client.execute(statement)
        rows = [
            dict(zip((column.name for column in page.columns), row, strict=True))
            for page in self.client.pages(operation)
            for row in page.rows
        ]
        self.client.close_operation(operation)
        return rows

    def _show(self, work: Work) -> bool:
        """Show a result. Return whether its duration is worth printing.

        The time that a user spends in a view is not.
        """
        if work.look is None:
            pages = self._opened(work)
            if pages is not None:
                form = self._form(work.display)
                with ctrl_z_refused(
                    lambda: self._say("Its rows are being printed; Ctrl-C ends the statement.")
                ):
                    width, cut = work.display.column_width, has_long_form(work.statement)
                    if not print_result(pages, form, self.screen.out, width, cut=cut):
                        self._say("OK")
                return True
        if work.look is not None:
            viewed = work.look.look()
            self.screen.out.writelines(f"{line}\n" for line in viewed.page)
            self.screen.out.flush()
            if viewed.error is not None:
                raise viewed.error
            read = _rows(viewed.rows)
            self._say(read if viewed.is_whole else f"{read} were read; the query was cancelled.")
        return work.look is None

    def _opened(self, work: Work) -> Iterable[ResultPage] | None:
        """Return the pages to print, or None if there is nothing to print.

        There is nothing to print if the pages went to a file or to the view of *work*.
        """
        display, file = work.display, self.screen.file
        pages = self._result(work.operation, display)
        first = next(pages)
        work.written = first.affected_rows
        if is_of_a_write(first) and (work.written is not None or not self._may_go_on(work)):
            # The job has completed, so its id would not help. _attend prints the row count.
            if work.written is None and self._form(display).is_for_people:
                self._say("OK")
            return None
        if file is not None:
            if first.is_query:
                with progress_line(self.screen.messages) as line:
                    count = file.write(self.client, work.operation, line.rows)
                self._say(f"{_rows(count)} in {file.path}")
            return None
        every: Iterable[ResultPage] = chain((first,), pages)
        if self._form(display).is_for_people:
            every = without_empty_columns(every)
        has_view = self.screen.form is None and display.mode is not ResultMode.TABLEAU
        if self.viewer is not None and first.has_content and has_view:
            opened = self.viewer.open(work, every, self.client.properties)
            if not isinstance(opened, Iterable):
                work.look = opened
                return None
            every = opened
        return self._to_print(first, every, work)

    def _to_print(self, first: ResultPage, every: Iterable[ResultPage], work: Work) -> Iterable[ResultPage]:
        """Return the pages *every*, whose first page is *first*, prepared for printing."""
        display = work.display
        if first.is_query and display.streaming and self.screen.messages.is_terminal:
            every = self._awaited(every, work)
        if self._form(display) is not Form.TABLE:
            return every
        if first.kinds is None:
            return self._window(every, display.most_rows)
        return standing_page(every, display.most_rows, lambda: self._say_window("last", display.most_rows))

    def _may_go_on(self, work: Work) -> bool:
        """Return whether the job of a change may be a stream, which runs until STOP JOB stops it.

        A compiled plan keeps its runtime mode, whatever the mode of the session.
        """
        first = next(significant(work.statement))
        return work.display.streaming or first.keyword in _RUNS_PLANS

    def _awaited(self, pages: Iterable[ResultPage], work: Work) -> Iterator[ResultPage]:
        """Yield *pages*.

        While waiting for one, show the elapsed time and the rows so far in a status line.
        """
        iterator, page, count = iter(pages), None, 0
        while True:
            with progress_line(self.screen.messages, work.began) as line:
                line.coming(count)
                page = next(iterator, None)
            if page is None:
                return
            count += len(page.rows)
            yield page

    def _say(self, text: str) -> None:
        self.screen.messages.print(escape(text), soft_wrap=True)

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
        """Yield the pages of a result, after showing its progress and warnings."""
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
        yield from pages

    def _window(self, pages: Iterable[ResultPage], most_rows: int) -> Iterator[ResultPage]:
        """Yield *pages* up to *most_rows* rows in total and report if there are more."""
        count = 0
        for page in pages:
            if count + len(page.rows) > most_rows:
                yield replace(page, rows=page.rows[: most_rows - count])
                self._say_window("first", most_rows)
                return
            count += len(page.rows)
            yield page

    def _say_window(self, which: str, most_rows: int) -> None:
        self._say(
            f"The table shows only the {which} {_rows(most_rows)}: for more, "
            "SET 'sql-client.execution.max-table-result.rows' or use --format csv."
        )

    def _pages(self, operation: str) -> Iterator[ResultPage]:
        with progress_line(self.screen.messages) as line:
            pages = self.client.pages(operation, line.statement)
            first = next(pages)
        yield first
        yield from pages


def _rows(count: int) -> str:
    return f"{count} {plural(count, 'row')}"


def has_long_form(statement: str) -> bool:
    """Return whether *statement* has an EXTENDED form with all details, so its last column may be cut."""
    words = [token.keyword or token.text for token in significant(statement)]
    return any(words[: len(short)] == short for short in _SHORT) and not _LONG.intersection(words)


def first_read(script: str) -> Statement | None:
    """Return the first statement of *script* that is a query or an INSERT, or None.

    An init file must not contain such a statement.
    """
    for statement in split_statements(script):
        token = next(significant(statement.text))
        if (token.keyword or token.text) in _READS:
            return statement
    return None
