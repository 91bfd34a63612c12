"""The timers of a key and their owners: the processor's named timers, and the timer for expired entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

STATES = ""
"""The owner of the timer for expired entries. It sorts before all names, so its timer fires first."""
_NAME = "freshtable_timers"


class OwnedTimers:
    """The timers of the current key.

    Spark stores only instants, and a single timer for each. A map state records the owner of each timer.
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._stored = handle.getMapState(_NAME, "owner STRING", "at BIGINT")
        self._known: dict[str, int] | None = None
        self._firing: int | None = None

    def begin(self) -> None:
        """Start to handle a key: forget the previous key's timers."""
        self._known = self._firing = None

    def register(self, owner: str, at: int) -> None:
        """Set the timer of *owner* to the instant *at*, in milliseconds, replacing its earlier instant.

        While a timer fires, raises ValueError if the instant is not later, because Spark would not fire it.
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
        """Set the timer of *owner* to *at*, unless it fires earlier.

        When the earlier timer fires, it is registered again.
        """
        if self._all().get(owner, at + 1) > at:
            self.register(owner, at)

    def delete(self, owner: str) -> None:
        """Delete the timer of *owner*."""
        known = self._all()
        at = known.pop(owner, None)
        if at is None:
            return
        self._stored.removeKey((owner,))
        # Spark itself removes the timer that fires.
        if at not in known.values() and at != self._firing:
            self._handle.deleteTimer(at)

    def times(self) -> Mapping[str, int]:
        """Return the instant of each owner's timer."""
        return dict(self._all())

    def fired(self, at: int) -> Iterator[str]:
        """Yield the owners whose timers fire at *at*, the states first.

        A timer that was deleted while an earlier one was handled does not fire.
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
