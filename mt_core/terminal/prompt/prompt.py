"""The prompt of `freshtable sql`, which runs commands, and each typed statement at its semicolon."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mt_core.base.tokens import Statement, split_statements
from mt_core.errors import MtError, SqlSyntaxError
from mt_core.terminal.background import PutAside, ctrl_z_puts_aside
from mt_core.terminal.prompt.commands import run_command
from mt_core.terminal.prompt.state import CONTINUATION, PROMPT, PromptState
from mt_core.terminal.prompt.typed import edited_part, is_command


class Reader(Protocol):
    """A source of typed statements."""

    def read(self, prompt: str, begun: str = "") -> str:
        """Return *begun* followed by the next text that the user types, or *begun* as edited.

        Raises EOFError at the end of the input, and KeyboardInterrupt.
        """


def _ask(prompt: str) -> str:
    """Return a line of standard input. The prompt goes to stderr, separate from rows. Raises EOFError."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


@dataclass(frozen=True)
class PlainReader:
    """Reads lines with `ask`, for terminals that cannot move the cursor."""

    ask: Callable[[str], str] = _ask

    def read(self, prompt: str, begun: str = "") -> str:
        return f"{begun}{self.ask(prompt)}\n"


@dataclass(frozen=True)
class Prompt:
    """Runs the statements from `reader` until its end or QUIT. Errors do not stop it.

    `meet` opens the session of a gateway that may be starting, and returns a message. If it is None, the
    gateway must be running.
    """

    sitting: PromptState
    reader: Reader
    meet: Callable[[], str] | None = None

    def run(self) -> None:
        """Run typed statements. Raises GatewayError if the gateway does not respond."""
        self.sitting.say(
            f"{self._met()} End statements with `;`, stop one with Ctrl-C, "
            "leave with Ctrl-D; HELP lists the commands."
        )
        typed = ""
        while not self.sitting.has_left:
            try:
                typed = self.reader.read(CONTINUATION if typed else PROMPT, typed)
            except KeyboardInterrupt:
                self.sitting.say("")
                typed = ""
                continue
            except EOFError:
                self.sitting.say("")
                break
            typed = self._run_typed(typed)
        if typed:
            self.sitting.say("The last statement was not run: it has no `;`.")
        self._leave()

    def _met(self) -> str:
        if self.meet is not None:
            return self.meet()
        client = self.sitting.runner.client
        _ = client.session
        return f"Connected to {client.url}."

    def _leave(self) -> None:
        """Tell the user what happens to statements in the background."""
        background = self.sitting.runner.background
        if len(background):
            self.sitting.say(
                "Statements in the background: queries stop with the session, changes of data continue; "
                "SHOW JOBS lists them."
            )
        background.close()

    def _run_typed(self, typed: str) -> str:
        """Run the complete part of *typed* and return the incomplete rest."""
        while typed.strip() and not self.sitting.has_left:
            if (before := edited_part(typed)) is not None and before.strip():
                typed = self._edited(before)
            elif is_command(typed):
                line, _, typed = typed.lstrip().partition("\n")
                typed = self._run_command(line) + typed
            else:
                return self._run_whole(typed)
        return ""

    def _edited(self, text: str) -> str:
        try:
            return self.sitting.edit(text)
        except MtError as error:
            self.sitting.runner.show_error(error)
            return ""

    def _run_command(self, line: str) -> str:
        """Run a command and return the text that it leaves to be run."""
        try:
            with ctrl_z_puts_aside():
                run_command(self.sitting, line)
        except MtError as error:
            self.sitting.runner.show_error(error)
        except (KeyboardInterrupt, PutAside):
            self.sitting.say("")
        typed, self.sitting.typed = self.sitting.typed, ""
        return typed

    def _run_whole(self, typed: str) -> str:
        """Run *typed* if its last statement has a semicolon, and return the incomplete rest."""
        try:
            statements = split_statements(typed)
        except SqlSyntaxError:
            # A quote, comment or block is still open, so wait for the rest.
            return typed
        if statements and not statements[-1].terminated:
            return typed
        for statement in statements:
            if not self._run_statement(statement):
                break
        return ""

    def _run_statement(self, statement: Statement) -> bool:
        """Run one statement. Return whether the statements after it should run."""
        self.sitting.last = statement.text
        try:
            with ctrl_z_puts_aside():
                self.sitting.runner.run(statement.text)
        except MtError as error:
            self.sitting.runner.show_error(error, statement=statement.text)
            return False
        except (KeyboardInterrupt, PutAside):
            return False
        return True
