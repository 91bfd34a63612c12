"""The leases of gateways in a transaction."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select

from mt_core.model.gateway import GatewayLease
from mt_core.registry.rows import gateway_of, gateway_row
from mt_core.registry.schema import GATEWAYS
from mt_core.registry.statements import Statements


class SqlGateways:
    """A `StoredGateways`."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def all(self) -> Sequence[GatewayLease]:
        result = self._statements.execute(select(GATEWAYS).order_by(GATEWAYS.c.owner))
        return [gateway_of(row) for row in result.mappings()]

    def put(self, lease: GatewayLease) -> None:
        self.delete(lease.owner)
        self._statements.insert(GATEWAYS, gateway_row(lease))

    def delete(self, owner: str) -> None:
        self._statements.execute(delete(GATEWAYS).where(GATEWAYS.c.owner == owner))
