"""A gateway, as others that share its registry see it: where it is, and until when it counts as alive."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

ENDED = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLease:
    """One process that works on the registry; `owner` is its name in the leases of runs and commands.

    `machine` tells machines and containers apart, `started` the processes that had the id `pid` on one of them; both
    are opaque.
    """

    owner: str
    lease_until: datetime = ENDED
    url: str = ""
    host: str = ""
    machine: str = ""
    pid: int = 0
    started: str = ""

    def lives(self, now: datetime) -> bool:
        """Whether the lease has not run out."""
        return self.lease_until > now

    def __str__(self) -> str:
        where = f"the gateway at {self.url}" if self.url else f"gateway {self.owner}"
        return f"{where} (process {self.pid} on {self.host or 'an unknown host'})"
