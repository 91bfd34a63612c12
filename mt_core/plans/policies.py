"""State TTL policies (FLIP-24): which accesses restart the TTL of an entry, and when the entry expires."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, StrEnum

from mt_core.base.options import flink_duration_of
from mt_core.plans.durations import FOR_EVER, ttl_text

_MILLISECOND = timedelta(milliseconds=1)
_TEXT = re.compile(
    r"(?P<ttl>[0-9]+\s*[a-zµ]*?)(?:\s+ON\s+(?P<update>CREATE|READ\s+WRITE|READ|WRITE))?"
    r"(?:\s+(?P<time>EVENT|PROCESSING)\s+TIME)?",
    re.IGNORECASE,
)


class StateAccess(Enum):
    """An access to an existing entry."""

    READ = "read"
    WRITE = "write"


class TtlUpdateEvent(StrEnum):
    """The accesses that restart the TTL of an entry; creating the entry always starts it."""

    ON_CREATE = "OnCreate"
    ON_READ = "OnRead"
    ON_WRITE = "OnWrite"
    ON_READ_WRITE = "OnReadWrite"


class TtlTimeCharacteristic(StrEnum):
    """The time of a TTL: event time (watermark and rows), or processing time (when batches run)."""

    EVENT_TIME = "EventTime"
    PROCESSING_TIME = "ProcessingTime"


_UPDATES = {
    TtlUpdateEvent.ON_CREATE: "ON CREATE",
    TtlUpdateEvent.ON_READ: "ON READ",
    TtlUpdateEvent.ON_WRITE: "ON WRITE",
    TtlUpdateEvent.ON_READ_WRITE: "ON READ WRITE",
}
_ACCESSES = {
    TtlUpdateEvent.ON_CREATE: frozenset[StateAccess](),
    TtlUpdateEvent.ON_READ: frozenset({StateAccess.READ}),
    TtlUpdateEvent.ON_WRITE: frozenset({StateAccess.WRITE}),
    TtlUpdateEvent.ON_READ_WRITE: frozenset(StateAccess),
}


@dataclass(frozen=True, slots=True)
class TtlPolicy:
    """When an entry expires: `ttl` after its creation or after an access that `update` names.

    The TTL is measured in `time`. Raises ValueError unless the TTL is a whole number of milliseconds, from 1
    ms to 100 years.
    """

    ttl: timedelta
    time: TtlTimeCharacteristic
    update: TtlUpdateEvent = TtlUpdateEvent.ON_CREATE

    def __post_init__(self) -> None:
        if self.ttl % _MILLISECOND or not _MILLISECOND <= self.ttl <= FOR_EVER:
            raise ValueError(f"A TTL of {self.ttl}: expected whole milliseconds, from 1 ms to 36500 days.")

    @classmethod
    def of_seconds(
        cls, seconds: int, time: TtlTimeCharacteristic, update: TtlUpdateEvent = TtlUpdateEvent.ON_CREATE
    ) -> TtlPolicy:
        """Return a policy with a TTL in seconds, the unit of FLIP-24."""
        return cls(timedelta(seconds=seconds), time, update)

    def expires(self, last_modified: int) -> int:
        """Return when an entry with the last modification *last_modified* expires; both in milliseconds."""
        return last_modified + self.ttl // _MILLISECOND

    def has_expired(self, last_modified: int, now: int) -> bool:
        """Return whether an entry has expired; it expires exactly at the instant that `expires` returns."""
        return self.expires(last_modified) <= now

    def after(self, access: StateAccess, last_modified: int, at: int) -> int:
        """Return the new time of last modification after *access* at the instant *at*, in milliseconds.

        An access that arrives late does not move this time back.
        """
        return max(last_modified, at) if self.is_modified_by(access) else last_modified

    def is_modified_by(self, access: StateAccess) -> bool:
        """Return whether *access* restarts the TTL of an entry."""
        return access in _ACCESSES[self.update]

    def __str__(self) -> str:
        return f"{self.update} by {self.time}"


OPERATOR_UPDATE = TtlUpdateEvent.ON_WRITE
OPERATOR_TIME = TtlTimeCharacteristic.PROCESSING_TIME
"""The defaults of operators and hints; OnCreate would reset a counter while its key is in use."""


def hinted_policy(text: str) -> TtlPolicy | None:
    """Parse the policy in a hint such as `1 h ON READ WRITE EVENT TIME`; return None if it is invalid.

    0 means forever. Omitted parts are those of the operators' default policy.
    """
    match = _TEXT.fullmatch(text.strip())
    ttl = flink_duration_of(match["ttl"]) if match else None
    if match is None or ttl is None or ttl > FOR_EVER or ttl % _MILLISECOND:
        return None
    update = "".join(word.title() for word in (match["update"] or "").split())
    time = match["time"] or ""
    return TtlPolicy(
        ttl or FOR_EVER,
        TtlTimeCharacteristic(f"{time.title()}Time") if time else OPERATOR_TIME,
        TtlUpdateEvent(f"On{update}") if update else OPERATOR_UPDATE,
    )


def operator_policy(ttl: timedelta) -> TtlPolicy:
    """Return the operators' default policy, with the TTL *ttl*."""
    return TtlPolicy(ttl, OPERATOR_TIME, OPERATOR_UPDATE)


def policy_text(policy: TtlPolicy) -> str:
    """Format *policy* as in a hint, such as `1 h ON READ WRITE EVENT TIME`, omitting defaults."""
    words = [ttl_text(policy.ttl)]
    if policy.update is not OPERATOR_UPDATE:
        words.append(_UPDATES[policy.update])
    if policy.time is not OPERATOR_TIME:
        words.append(f"{policy.time.removesuffix('Time').upper()} TIME")
    return " ".join(words)
