"""A registry that a gateway reads while the test looks at what it shows meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from mt_core.clock import Clock
from mt_core.gateway.services import GatewayServices
from mt_core.tables.overview.overview import Overview
from tests.support.memory_registry import MemoryRegistry, MemoryTransaction
from tests.support.registry_facts import a_table


class SlowRegistry(MemoryRegistry):
    """A registry with 150 tables, whose second page of tables is read only when the test continues."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.readings = 0
        self.entered, self.go_on = threading.Event(), threading.Event()
        with self.transaction() as tx:
            for number in range(150):
                tx.tables.insert(a_table(f"t{number:03}", table_id=f"id-{number}"))

    @contextmanager
    def reading(self) -> Iterator[MemoryTransaction]:
        self.readings += 1
        if self.readings == 3:
            self.entered.set()
            assert self.go_on.wait(60)
        with super().reading() as tx:
            yield tx

    @contextmanager
    def being_read(self, services: GatewayServices) -> Iterator[GatewayServices]:
        """Yield *services* with an overview that is being built from this registry."""
        overview = Overview(self, self._clock, {})
        first_pass = threading.Thread(target=overview.catch_up)
        first_pass.start()
        assert self.entered.wait(60)
        try:
            yield replace(services, facts=replace(services.facts, overview=overview, reading=self.reading))
        finally:
            self.go_on.set()
            first_pass.join()
