"""Completion candidates from the gateway, requested in the background while the user types."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mt_core.errors import GatewayError

Ask = Callable[[str, int], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A position in a statement: the text before the partial word, that word, and the text after it."""

    before: str
    begun: str
    after: str

    @property
    def position(self) -> int:
        return len(self.before) + len(self.begun)

    def continues(self, other: Place) -> bool:
        """Return whether the candidates for *other* include all candidates for this place.

        They do if only more letters of the same word were typed.
        """
        same = (self.before, self.after) == (other.before, other.after)
        return (
            same
            and self.begun.casefold().startswith(other.begun.casefold())
            and "." not in self.begun[len(other.begun) :]
        )


class Candidates:
    """Requests candidates from the gateway in a separate thread.

    The thread starts with the first request and stops with `close`. Only one request runs at a time; of the
    waiting ones, only the newest is sent. `on_answer` is called in that thread, with the place of the
    request.
    """

    def __init__(self, ask: Ask, on_answer: Callable[[Place], object]) -> None:
        self._ask, self._on_answer = ask, on_answer
        self._changed = threading.Condition()
        self._wanted: Place | None = None
        self._answered: tuple[Place, Sequence[str]] | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def at(self, place: Place) -> list[str] | None:
        """Return the cached candidates at *place* without waiting.

        If they are not cached, request them and return None.
        """
        with self._changed:
            if self._answered is not None and place.continues(self._answered[0]):
                begun = place.begun.casefold()
                return [
                    word
                    for word in self._answered[1]
                    if word.casefold().replace("`", "").startswith(begun.replace("`", ""))
                ]
            self._wanted = place
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._work, name="candidates", daemon=True)
                self._thread.start()
            self._changed.notify()
        return None

    def forget(self) -> None:
        """Clear the cache, because a statement may have changed the candidates."""
        with self._changed:
            self._wanted = self._answered = None

    def close(self) -> None:
        """Stop the thread without waiting for a response."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._wanted is not None)
                place = self._wanted
            if self._closed or place is None:
                return
            words = self._answer(place)
            with self._changed:
                late = self._wanted is not place
                if not late:
                    self._wanted, self._answered = None, (place, words)
            if not late:
                self._on_answer(place)

    def _answer(self, place: Place) -> Sequence[str]:
        try:
            return self._ask(place.before + place.begun + place.after, place.position)
        except GatewayError:
            # The next statement will report what is wrong with the gateway.
            return ()
        except RuntimeError:
            # httpx raises RuntimeError if the client has been closed.
            if not self._closed:
                raise
            return ()
