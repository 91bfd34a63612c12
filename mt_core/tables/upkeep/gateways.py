"""Gateways that share a registry: only one at a time uses it, as long as it renews its lease."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from mt_core.model.gateway import GatewayLease, successor
from mt_core.tables.registry import Transaction

LEASE = timedelta(seconds=15)
# The lease of an ended gateway is kept longer than the leases of its runs and commands, as proof that it has
# ended.
RETAINED = timedelta(days=1)


def take_lease(
    tx: Transaction,
    lease: GatewayLease,
    *,
    length: timedelta = LEASE,
    dead: Callable[[GatewayLease], bool] = lambda _other: False,
) -> GatewayLease | None:
    """Acquire or renew *lease* for *length*; if another gateway is alive, return its lease, or else None.

    If *dead* reports that the process of a gateway has ended, the gateway is not alive, however long its
    lease. Its lease is then ended immediately, which releases everything that the gateway had leased. A lease
    from before the clock was set back expires after *length* unless it is renewed. It expires immediately if
    *lease* was acquired later.
    """
    now = tx.now()
    others = [other for other in tx.gateways.all() if other.owner != lease.owner]
    living = [other for other in others if other.lease_until > now]
    is_owner = successor(tx.gateways.all(), lease.owner, now) is None
    for other in living:
        if not (is_owner or dead(other)):
            if other.lease_until > now + length:
                other = replace(other, lease_until=now + length)
                tx.gateways.put(other)
            return other
    for other in living:
        tx.gateways.put(replace(other, lease_until=now))
    for other in others:
        if other.lease_until < now - RETAINED:
            tx.gateways.delete(other.owner)
    tx.gateways.put(replace(lease, lease_until=now + length))
    return None


def end_lease(tx: Transaction, lease: GatewayLease) -> None:
    """Release a lease, so that the next gateway does not have to wait.

    Harmless if another gateway has already taken over.
    """
    mine = next((each for each in tx.gateways.all() if each.owner == lease.owner), None)
    if mine is not None and mine.lease_until > tx.now():
        tx.gateways.put(replace(mine, lease_until=tx.now()))


def living_owners(tx: Transaction) -> frozenset[str]:
    """Return the owners whose gateways are alive."""
    now = tx.now()
    return frozenset(gateway.owner for gateway in tx.gateways.all() if gateway.lease_until > now)


def ended_owners(tx: Transaction) -> frozenset[str]:
    """Return the owners whose gateways have ended."""
    now = tx.now()
    return frozenset(gateway.owner for gateway in tx.gateways.all() if gateway.lease_until <= now)
