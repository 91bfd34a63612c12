"""The meeting of a client and its gateway: what is said of it, and how its start is waited for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.markup import escape

from mt_core.client.http import GatewayClient
from mt_core.errors import MtError
from mt_core.terminal.embedded import EmbeddedGateway


class Meeting:
    """Where *client* meets the *embedded* gateway of a home, which may be starting;
    messages go to *messages*.
    """

    def __init__(self, client: GatewayClient, embedded: EmbeddedGateway, messages: Console) -> None:
        self._client, self._embedded, self._messages = client, embedded, messages
        self._told = ""

    def begin(self) -> str:
        """Let the session open in the background, and return what a person is told meanwhile."""
        self._told = self._embedded.found()
        threading.Thread(target=self._open, name="opening", daemon=True).start()
        return self._told or f"A gateway starts on {self._embedded.home}."

    def wait(self) -> None:
        """Wait until the session is open, with a line that says so on a terminal;
        raises the error that keeps it closed.
        """
        if not self._client.has_session:
            with self._progress():
                _ = self._client.session
        told = self._embedded.found()
        if told and told != self._told:
            self._told = told
            self._say(told)

    def leave(self) -> None:
        """Say what goes on without this client."""
        if farewell := self._embedded.farewell():
            self._say(farewell)

    def _open(self) -> None:
        # Its error is that of the first statement, which tries again.
        with suppress(MtError):
            _ = self._client.session

    @contextmanager
    def _progress(self) -> Iterator[None]:
        if not self._messages.is_terminal:
            yield
            return
        with self._messages.status(
            escape(f"The gateway on {self._embedded.home} starts; its log: {self._embedded.log}")
        ):
            yield

    def _say(self, text: str) -> None:
        self._messages.print(text, soft_wrap=True, markup=False)
