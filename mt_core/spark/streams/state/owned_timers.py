"""The timers of a key, each with its owner: the states, whose entries expire,
or a name that the processor has given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

STATES = ""
"""The owner of the timer by which entries are removed. It sorts before all names:
it runs first at one instant.
"""
_NAME = "freshtable_timers"


class OwnedTimers:
    """The timers of the key at hand.

    Spark knows instants alone, one timer for each; a map state has whose they are.
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._stored = handle.getMapState(_NAME, "owner STRING", "at BIGINT")
        self._known: dict[str, int] | None = None
        self._firing: int | None = None

    def begin(self) -> None:
        """Begin with a key."""
        self._known = self._firing = None

    def register(self, owner: str, at: int) -> None:
        """Let the timer of *owner* run at the instant *at*, in milliseconds, and no more at the one before.

        Raises ValueError in a timer, for an instant that is not after that of the timer:
        Spark would not come to it.
        """
        if self._firing is not None and at <= self._firing:
            raise ValueError(
                f"timer '{owner}' at {at}: it is {self._firing} already; register a later instant"
            )
        known = self._all()
        if known.get(owner) == at:
            return
        self.delete(owner)
        if at not in known.values():
            self._handle.registerTimer(at)
        known[owner] = at
        self._stored.updateValue((owner,), (at,))

    def register_before(self, owner: str, at: int) -> None:
        """Let the timer of *owner* run at *at*, unless it runs before that:
        then it will be registered anew.
        """
        if self._all().get(owner, at + 1) > at:
            self.register(owner, at)

    def delete(self, owner: str) -> None:
        """Let *owner* have no timer."""
        known = self._all()
        at = known.pop(owner, None)
        if at is None:
            return
        self._stored.removeKey((owner,))
        # Spark itself takes away the one that runs.
        if at not in known.values() and at != self._firing:
            self._handle.deleteTimer(at)

    def times(self) -> Mapping[str, int]:
        """Return the instant of each owner."""
        return dict(self._all())

    def fired(self, at: int) -> Iterator[str]:
        """Yield the owners whose timer runs at *at*, the states first;
        one that another has deleted does not.
        """
        self._firing = at
        for owner in sorted(name for name, instant in self._all().items() if instant <= at):
            if self._all().get(owner, at + 1) <= at:
                self.delete(owner)
                yield owner

    def _all(self) -> dict[str, int]:
        if self._known is None:
            self._known = {owner: at for (owner,), (at,) in self._stored.iterator()}
        return self._known
