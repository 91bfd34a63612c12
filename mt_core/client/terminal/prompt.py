"""The prompt of `freshtable sql`: statements typed by a person, each run when its semicolon comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

from rich.console import Console
from rich.markup import escape

from mt_core.client.http import GatewayClient
from mt_core.client.terminal.script import run_statement
from mt_core.client.terminal.table import Format
from mt_core.errors import MtError, SqlSyntaxError
from mt_core.tokens import Statement, split_statements

PROMPT, CONTINUATION = "freshtable> ", "         -> "
_LEAVE = {"quit", "exit"}


class Prompt:
    """Reads lines with *read*, which is `input` or like it, until the end of the input or `quit`; errors do not end it."""

    def __init__(
        self, client: GatewayClient, form: Format, out: IO[str], messages: Console, read: Callable[[str], str] = input
    ) -> None:
        self._client, self._form, self._out, self._messages, self._read = client, form, out, messages, read

    def run(self) -> None:
        """Raise GatewayError if there is no gateway; then run what is typed."""
        _ = self._client.session
        self._messages.print(
            f"Connected to {self._client.url}. End statements with `;`, stop one with Ctrl-C, leave with Ctrl-D.",
            soft_wrap=True,
        )
        typed = ""
        while True:
            try:
                typed += self._read(CONTINUATION if typed else PROMPT) + "\n"
            except KeyboardInterrupt:
                self._messages.print()
                typed = ""
                continue
            except EOFError:
                self._messages.print()
                break
            if typed.strip(" \n;").lower() in _LEAVE:
                return
            typed = self._run_whole(typed)
        if typed:
            self._messages.print("The last statement was not run: it has no `;`.")

    def _run_whole(self, typed: str) -> str:
        """Run *typed* if its last statement has its semicolon, and return what is left to be completed."""
        try:
            statements = split_statements(typed)
        except SqlSyntaxError:
            # A quote, comment or block is open: there is more to come.
            return typed
        if statements and not statements[-1].terminated:
            return typed
        try:
            self._run(statements)
        except MtError as error:
            self._messages.print(f"[red]Error:[/red] {escape(str(error))}", soft_wrap=True)
        except KeyboardInterrupt:
            pass
        return ""

    def _run(self, statements: list[Statement]) -> None:
        for statement in statements:
            run_statement(self._client, statement.text, self._form, self._out, self._messages)
