"""The gateway's lease of its registry: acquired at the start, renewed while it runs, released at the end."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from mt_core.app import process_identity
from mt_core.base.background import BackgroundLoop
from mt_core.clock import Clock
from mt_core.errors import MtError, RegistryError, RegistryFull, RegistryInUse
from mt_core.model.gateway import GatewayLease
from mt_core.tables.registry import Registry, Transaction, in_transaction
from mt_core.tables.upkeep.gateways import LEASE, end_lease, take_lease

RENEW_EVERY = LEASE / 3
LOOK_EVERY = timedelta(seconds=1)
END_S = 5.0
# The lease counts as lost after this many periods without renewal. A database that does not respond is given
# more time, because a long transaction of this gateway may keep it busy.
MOST_FAILED, MOST_SILENT = 3, 6

log = logging.getLogger(__name__)


def lease_of(owner: str, url: str) -> GatewayLease:
    """Return a lease for this process, with *owner* and the address *url*."""
    return GatewayLease(
        owner=owner,
        url=url,
        host=os.uname().nodename,
        machine=process_identity.machine(),
        pid=os.getpid(),
        started=process_identity.start_of(os.getpid()),
    )


class RegistryLease:
    """Excludes other gateways from *registry*.

    *on_lost* is called once, with the error that ends this gateway. `expires_at` is when the lease expires
    unless it is renewed, or None before it is acquired.
    """

    def __init__(
        self, registry: Registry, lease: GatewayLease, *, clock: Clock, on_lost: Callable[[MtError], object]
    ) -> None:
        self._registry, self._lease, self._clock, self._on_lost = registry, lease, clock, on_lost
        self._renewal = BackgroundLoop("gateway-lease", self.renew, clock=clock, every=RENEW_EVERY)
        self._watch = BackgroundLoop("gateway-lease-watch", self.check, clock=clock, every=RENEW_EVERY)
        self._taken = self._renewed = False
        self.expires_at: datetime | None = None
        self._missed = 0
        self._failure: RegistryError | None = None

    def take(self, interrupt: threading.Event) -> bool:
        """Acquire the lease and return True. Return False if *interrupt* is set while another lease is valid.

        This does not wait for the lease of a process on this machine that has ended. Raises RegistryInUse
        naming a gateway that renews its lease.
        """
        first: GatewayLease | None = None
        began = self._clock.now()
        while (
            holder := in_transaction(self._registry, partial(take_lease, lease=self._lease, dead=self._died))
        ) is not None:
            if first is None:
                log.warning(
                    "The registry is held by %s; waiting for its lease to end.", holder, extra=_LEASE_WAIT
                )
            elif (holder.owner, holder.lease_until) != (first.owner, first.lease_until):
                raise RegistryInUse(
                    f"The registry is used by {holder}; use that one, stop it, "
                    "or give this one a registry of its own (registry.url)."
                )
            first = holder
            if self._clock.wait(LOOK_EVERY, interrupt):
                return False
            began = self._clock.now()
        self._taken, self.expires_at = True, began + LEASE
        return True

    def hold(self, tx: Transaction) -> None:
        """Renew the acquired lease within *tx*; raise RegistryInUse if another gateway has acquired it."""
        holder = take_lease(tx, self._lease)
        if holder is not None:
            raise RegistryInUse(
                f"This gateway did not renew its lease in time: the registry was taken by {holder}."
            )

    def start(self) -> None:
        """Start the renewal of the lease."""
        self._renewal.start()
        self._watch.start()

    def renew(self) -> None:
        """Renew the lease once. End this gateway if another one has acquired the lease."""
        began = self._clock.now()
        try:
            in_transaction(self._registry, self.hold)
        except RegistryInUse as error:
            self._lose(error)
        except RegistryFull as error:
            if not isinstance(self._failure, RegistryFull):
                log.error("%s: %s", RegistryFull.code, error, extra={"action": "disk_full"})
            # Other gateways cannot write a lease there either.
            self._renewed, self._failure = True, error
            return
        except RegistryError as error:
            self._failure = error
            raise
        if isinstance(self._failure, RegistryFull):
            log.warning("The registry can be written again.", extra={"action": "disk_has_room"})
        self._renewed, self._failure, self.expires_at = True, None, began + LEASE

    def check(self) -> None:
        """End this gateway if its last renewal was too long ago."""
        self._missed = 0 if self._renewed else self._missed + 1
        self._renewed = False
        if self._missed < (MOST_FAILED if self._failure else MOST_SILENT):
            return
        reason = self._failure.message if self._failure else "its database does not respond"
        self._lose(
            RegistryError(f"The gateway ends, because it cannot renew its lease of the registry: {reason}")
        )

    def trouble(self) -> str:
        """Return the error while the registry's disk is full, or "" if it is not."""
        failure = self._failure
        return f"{failure.code}: {failure.message}" if isinstance(failure, RegistryFull) else ""

    def release(self) -> None:
        """Stop renewing and end the lease, so that the next gateway can start immediately.

        If the lease cannot be ended, it expires.
        """
        for loop in (self._renewal, self._watch):
            loop.end()
        for loop in (self._renewal, self._watch):
            loop.join(END_S)
        if not self._taken:
            return
        self._taken = False
        try:
            in_transaction(self._registry, partial(end_lease, lease=self._lease))
        except RegistryError as error:
            log.warning(
                "the lease of the registry was not released: %s", error, extra={"action": "lease_left"}
            )

    def _lose(self, error: MtError) -> None:
        for loop in (self._renewal, self._watch):
            loop.end()
        log.error("%s", error, extra={"action": "lease_lost"})
        self._on_lost(error)

    def _died(self, other: GatewayLease) -> bool:
        here = other.machine == self._lease.machine
        return here and not process_identity.is_running(other.pid, other.started)


_LEASE_WAIT = {"action": "lease_wait"}
