"""The gateway's lease of its registry: taken at the start, renewed while it works, released at the end."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from mt_core.app import process_identity
from mt_core.base.background import BackgroundLoop
from mt_core.clock import Clock
from mt_core.errors import MtError, RegistryError, RegistryFull, RegistryInUse
from mt_core.model.gateway import GatewayLease
from mt_core.tables.registry import Registry, in_transaction
from mt_core.tables.upkeep.gateways import LEASE, end_lease, take_lease

RENEW_EVERY = LEASE / 3
LOOK_EVERY = timedelta(seconds=1)
END_S = 5.0
# After so many periods without a renewal the lease has expired; a database that does not answer at all gets
# longer, because it may be busy with a long transaction of our own.
MOST_FAILED, MOST_SILENT = 3, 6

log = logging.getLogger(__name__)


def lease_of(owner: str, url: str) -> GatewayLease:
    """Return the lease that this process can take, as *owner* with the address *url*."""
    return GatewayLease(
        owner=owner,
        url=url,
        host=os.uname().nodename,
        machine=process_identity.machine(),
        pid=os.getpid(),
        started=process_identity.start_of(os.getpid()),
    )


class RegistryLease:
    """Keeps other gateways from *registry*; *on_lost* receives, once, the error that ends this one."""

    def __init__(
        self, registry: Registry, lease: GatewayLease, *, clock: Clock, on_lost: Callable[[MtError], object]
    ) -> None:
        self._registry, self._lease, self._clock, self._on_lost = registry, lease, clock, on_lost
        self._renewal = BackgroundLoop("gateway-lease", self.renew, clock=clock, every=RENEW_EVERY)
        self._watch = BackgroundLoop("gateway-lease-watch", self.check, clock=clock, every=RENEW_EVERY)
        self._taken = self._renewed = False
        self._missed = 0
        self._failure: RegistryError | None = None

    def take(self, interrupt: threading.Event) -> bool:
        """Take the registry, and return True; False if *interrupt* is set before another
        gateway's lease ends.

        It does not wait for a gateway whose process has ended on this machine.
        Raises RegistryInUse naming the gateway that renews its lease.
        """
        first: GatewayLease | None = None
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
        self._taken = True
        return True

    def start(self) -> None:
        """Start the renewal of the lease."""
        self._renewal.start()
        self._watch.start()

    def renew(self) -> None:
        """Renew the lease once; end this gateway if another one has taken the registry."""
        try:
            holder = in_transaction(self._registry, partial(take_lease, lease=self._lease))
        except RegistryFull as error:
            if not isinstance(self._failure, RegistryFull):
                log.error("%s: %s", RegistryFull.code, error, extra={"action": "disk_full"})
            # Nobody else can write a lease there either.
            self._renewed, self._failure = True, error
            return
        except RegistryError as error:
            self._failure = error
            raise
        if isinstance(self._failure, RegistryFull):
            log.warning("The registry can be written again.", extra={"action": "disk_has_room"})
        self._renewed, self._failure = True, None
        if holder is not None:
            self._lose(
                RegistryInUse(
                    f"This gateway did not renew its lease in time: the registry was taken by {holder}."
                )
            )

    def check(self) -> None:
        """End this gateway if its last renewal is too long ago."""
        self._missed = 0 if self._renewed else self._missed + 1
        self._renewed = False
        if self._missed < (MOST_FAILED if self._failure else MOST_SILENT):
            return
        reason = self._failure.message if self._failure else "its database does not answer"
        self._lose(
            RegistryError(f"The gateway ends, because it cannot renew its lease of the registry: {reason}")
        )

    def trouble(self) -> str:
        """Return why the registry takes no changes while its disk is full, "" otherwise."""
        failure = self._failure
        return f"{failure.code}: {failure.message}" if isinstance(failure, RegistryFull) else ""

    def release(self) -> None:
        """Stop the renewal, and end the lease so that the next gateway can start at once;
        if that fails, the lease expires.
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
