"""The prompt of `freshtable sql`: statements that a person types, each run at its semicolon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mt_core.client.terminal.script import Runner
from mt_core.errors import MtError, SqlSyntaxError
from mt_core.tokens import split_statements

PROMPT, CONTINUATION = "freshtable> ", "         -> "
_LEAVE = {"quit", "exit"}


@dataclass(frozen=True)
class Prompt:
    """Reads lines with `read`, which is `input` or like it, until the end of the input or `quit`; errors do not end it."""

    runner: Runner
    read: Callable[[str], str] = input

    def run(self) -> None:
        """Raise GatewayError if there is no gateway; then run what is typed."""
        messages, client = self.runner.screen.messages, self.runner.client
        _ = client.session
        messages.print(
            f"Connected to {client.url}. End statements with `;`, stop one with Ctrl-C, leave with Ctrl-D.",
            soft_wrap=True,
        )
        typed = ""
        while True:
            try:
                typed += self.read(CONTINUATION if typed else PROMPT) + "\n"
            except KeyboardInterrupt:
                messages.print()
                typed = ""
                continue
            except EOFError:
                messages.print()
                break
            if typed.strip(" \n;").lower() in _LEAVE:
                return
            typed = self._run_whole(typed)
        if typed:
            messages.print("The last statement was not run: it has no `;`.")

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
            for statement in statements:
                self.runner.run(statement.text)
        except MtError as error:
            self.runner.show_error(error)
        except KeyboardInterrupt:
            pass
        return ""
