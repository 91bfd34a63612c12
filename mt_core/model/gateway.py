"""The lease of a gateway on its registry: where the gateway is, and until when it counts as alive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

ENDED = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLease:
    """The lease of one gateway process, which lives until `lease_until`;
    `owner` is its name in the leases of runs and commands.

    `machine` distinguishes machines and containers, `started` the processes that had the id `pid` on one
    of them; both are opaque.
    """

    owner: str
    lease_until: datetime = ENDED
    url: str = ""
    host: str = ""
    machine: str = ""
    pid: int = 0
    started: str = ""

    def __str__(self) -> str:
        where = f"the gateway at {self.url}" if self.url else f"gateway {self.owner}"
        return f"{where} (process {self.pid} on {self.host or 'an unknown host'})"


def successor(gateways: Sequence[GatewayLease], owner: str, now: datetime) -> GatewayLease | None:
    """Return the one of *gateways* that has taken the registry from *owner*;
    without a lease of *owner*, one that lives.

    Leases are taken one after the other, so that the later one decides:
    those before it seem to live again once the clock is put back.
    """
    mine = next((each.lease_until for each in gateways if each.owner == owner), now)
    return next(
        (each for each in gateways if each.owner != owner and each.lease_until > max(mine, now)), None
    )
