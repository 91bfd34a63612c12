"""The lease of a gateway on its registry: the gateway's address, and until when it counts as alive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

ENDED = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLease:
    """The lease of one gateway process, valid until `lease_until`.

    `owner` is the gateway's name in the leases of runs and commands. `machine` identifies a machine or
    container. `started` distinguishes processes that had the same `pid` on it. Both are opaque.
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
    """Return the gateway that took the registry over from *owner*, or None.

    If *owner* has no lease, this is any other gateway with a valid one. Gateways take leases one after the
    other, so only a later lease than that of *owner* counts: if the clock is set back, earlier leases look
    valid again.
    """
    own_lease_until = next((each.lease_until for each in gateways if each.owner == owner), now)
    return next(
        (each for each in gateways if each.owner != owner and each.lease_until > max(own_lease_until, now)),
        None,
    )
