"""The connection of a client to an embedded gateway that may still be starting: progress and messages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.markup import escape

from mt_core.client.http import GatewayClient
from mt_core.errors import MtError
from mt_core.terminal.embedded import EmbeddedGateway


class GatewayConnection:
    """The connection of *client* to the *embedded* gateway of a home, which may still be starting.

    Messages are printed to the console *messages*.
    """

    def __init__(self, client: GatewayClient, embedded: EmbeddedGateway, messages: Console) -> None:
        self._client, self._embedded, self._messages = client, embedded, messages
        self._last_message = ""

    def begin(self) -> str:
        """Start to open the session in the background and return the message for the user."""
        self._last_message = self._embedded.found()
        threading.Thread(target=self._open, name="opening", daemon=True).start()
        return self._last_message or f"Starting a gateway on {self._embedded.home}."

    def wait(self) -> None:
        """Wait until the session is open, with a status line if the output is a terminal.

        Raises the error that prevented it.
        """
        if not self._client.has_session:
            with self._progress():
                _ = self._client.session
        message = self._embedded.found()
        if message and message != self._last_message:
            self._last_message = message
            self._say(message)

    def leave(self) -> None:
        """Print which work the gateway continues after this client has exited."""
        if farewell := self._embedded.farewell():
            self._say(farewell)

    def _open(self) -> None:
        # The first statement tries again and reports the error.
        with suppress(MtError):
            _ = self._client.session

    @contextmanager
    def _progress(self) -> Iterator[None]:
        if not self._messages.is_terminal:
            yield
            return
        with self._messages.status(
            escape(f"The gateway on {self._embedded.home} is starting; its log is {self._embedded.log}")
        ):
            yield

    def _say(self, text: str) -> None:
        self._messages.print(text, soft_wrap=True, markup=False)
