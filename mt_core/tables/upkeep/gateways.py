"""Gateways on one registry: one at a time works on it, as long as it renews its lease."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from mt_core.model.gateway import GatewayLease, successor
from mt_core.tables.registry import Transaction

LEASE = timedelta(seconds=15)
# The lease of a gateway that has ended is proof for longer than any lease of its runs and commands lasts.
KEPT = timedelta(days=1)


def take_lease(
    tx: Transaction,
    lease: GatewayLease,
    *,
    length: timedelta = LEASE,
    dead: Callable[[GatewayLease], bool] = lambda _other: False,
) -> GatewayLease | None:
    """Take or renew *lease* for *length*, unless another gateway lives; that one is returned then.

    A gateway whose process has ended, as *dead* reports, does not live, however long its lease. What it had
    leased is free from then on: its own lease is the proof. One that was written before the clock was put
    back ends after *length*, unless it is renewed; at once, if *lease* has been taken after it.
    """
    now = tx.now()
    others = [other for other in tx.gateways.all() if other.owner != lease.owner]
    living = [other for other in others if other.lease_until > now]
    holds = successor(tx.gateways.all(), lease.owner, now) is None
    for other in living:
        if not (holds or dead(other)):
            if other.lease_until > now + length:
                other = replace(other, lease_until=now + length)
                tx.gateways.put(other)
            return other
    for other in living:
        tx.gateways.put(replace(other, lease_until=now))
    for other in others:
        if other.lease_until < now - KEPT:
            tx.gateways.delete(other.owner)
    tx.gateways.put(replace(lease, lease_until=now + length))
    return None


def end_lease(tx: Transaction, lease: GatewayLease) -> None:
    """Release a lease, so that the next gateway need not wait;
    harmless when another gateway has taken over.
    """
    mine = next((each for each in tx.gateways.all() if each.owner == lease.owner), None)
    if mine is not None and mine.lease_until > tx.now():
        tx.gateways.put(replace(mine, lease_until=tx.now()))


def living_owners(tx: Transaction) -> frozenset[str]:
    """Return the owners whose gateways live."""
    now = tx.now()
    return frozenset(gateway.owner for gateway in tx.gateways.all() if gateway.lease_until > now)


def ended_owners(tx: Transaction) -> frozenset[str]:
    """Return the owners whose gateways do not live any more."""
    now = tx.now()
    return frozenset(gateway.owner for gateway in tx.gateways.all() if gateway.lease_until <= now)
