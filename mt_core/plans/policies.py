"""TTL policies of states (FLIP-24): what lets the time of an entry begin again, in which time it runs,
and when it has expired.
"""

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
    """What is done with an entry that is there."""

    READ = "read"
    WRITE = "write"


class TtlUpdateEvent(StrEnum):
    """What lets the time of an entry begin again. It always begins when the entry is created."""

    ON_CREATE = "OnCreate"
    ON_READ = "OnRead"
    ON_WRITE = "OnWrite"
    ON_READ_WRITE = "OnReadWrite"


class TtlTimeCharacteristic(StrEnum):
    """The time of a TTL: that of the watermark and of the rows, or that at which a batch runs."""

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
    """An entry is gone when `ttl` has passed, in `time`, since it was created or since what `update` names.

    Raises ValueError for a TTL that is not of whole milliseconds from 1 ms to 100 years.
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
        """Return the policy of *seconds*, the unit of FLIP-24."""
        return cls(timedelta(seconds=seconds), time, update)

    def expires(self, last_modified: int) -> int:
        """Return the instant, in milliseconds, at which an entry that was *last_modified*
        then has expired.
        """
        return last_modified + self.ttl // _MILLISECOND

    def has_expired(self, last_modified: int, now: int) -> bool:
        """Say whether an entry is gone: at the very instant of its expiry it is."""
        return self.expires(last_modified) <= now

    def after(self, access: StateAccess, last_modified: int, at: int) -> int:
        """Return when an entry is last modified once *access* came *at* an instant;
        a late one does not move it back.
        """
        return max(last_modified, at) if self.is_modified_by(access) else last_modified

    def is_modified_by(self, access: StateAccess) -> bool:
        """Say whether *access* lets the time of an entry begin again."""
        return access in _ACCESSES[self.update]

    def __str__(self) -> str:
        return f"{self.update} by {self.time}"


OPERATOR_UPDATE = TtlUpdateEvent.ON_WRITE
OPERATOR_TIME = TtlTimeCharacteristic.PROCESSING_TIME
"""The policy of the operators, and of a hint that names none: OnCreate would begin a counter anew
while its key is in use.
"""


def hinted_policy(text: str) -> TtlPolicy | None:
    """Return the policy that a hint writes as *text*, `1 h ON READ WRITE EVENT TIME`; None for anything else.

    0 is for ever. What is not said is as in the operators.
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
    """Return the policy of an operator of which nothing but the *ttl* is said."""
    return TtlPolicy(ttl, OPERATOR_TIME, OPERATOR_UPDATE)


def policy_text(policy: TtlPolicy) -> str:
    """Return *policy* as a hint writes it, `1 h ON READ WRITE EVENT TIME`,
    without what is as in the operators.
    """
    words = [ttl_text(policy.ttl)]
    if policy.update is not OPERATOR_UPDATE:
        words.append(_UPDATES[policy.update])
    if policy.time is not OPERATOR_TIME:
        words.append(f"{policy.time.removesuffix('Time').upper()} TIME")
    return " ".join(words)
