"""The views of the page, and the gateways at which tests and the tour look at them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.browser.gateways import LOST, STARTING, nothing, shown_gateway
from tests.browser.ledgers import ODD_NAME, TABLES
from tests.support.gateway.wired import WiredGateway


def table(name: str) -> str:
    """Return the path of the table with this name."""
    [table_id] = [each.table_id for each in TABLES if each.name == name]
    return f"/ui/tables/{table_id}"


def graph(of: str, **levels: int) -> str:
    """Return the path of the graph of a table or a source."""
    more = "".join(f"&{name}={number}" for name, number in levels.items())
    return f"/ui/graph?of={quote(of)}{more}"


PLAIN_VIEWS: Mapping[str, str] = {
    "tables": "/ui/",
    "graph-of-namespaces": "/ui/graph",
    "jobs": "/ui/jobs",
    "sessions": "/ui/sessions",
    "gateway": "/ui/gateway",
    "sql": "/ui/sql",
}
TABLE_VIEWS: Mapping[str, str] = {
    "late": table("revenue"),
    "late-by-inheritance": table("daily_by_city"),
    "failing": table("top_products"),
    "soon": table("clicks_5m"),
    "continuous": table("sessions"),
    "suspended": table("funnel"),
    "doubted": table("ledger"),
    "odd": table(ODD_NAME),
    "initializing": table("forecast"),
}
OTHER_VIEWS: Mapping[str, str] = {
    "tables-late": "/ui/?state=late",
    "tables-no-match": "/ui/?q=nothing-of-this-name",
    "graph-late": graph("lake.shop.daily_by_city", up=3, down=3),
    "graph-of-source": graph("lake.shop.orders"),
    "refresh-form": f"{table('revenue')}/refresh",
    "suspend-form": f"{table('revenue')}/suspend",
    "resume-form": f"{table('funnel')}/resume",
    "verify-form": f"{table('balances')}/verify",
}
ERRORS: Mapping[str, str] = {
    "not-found": "/ui/nothing",
    "no-such-table": "/ui/tables/00000000",
    "not-understood": "/ui/?state=late&sort=worst",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A gateway and the views at which to look there, by name."""

    gateway: Mapping[str, Any] = field(default_factory=dict)
    views: Mapping[str, str]
    token: str = ""

    def start(self, folder: Path) -> Any:
        """Return the context of the gateway, whose registry is in *folder*."""
        return shown_gateway(folder, **self.gateway)


SITUATIONS: Mapping[str, Situation] = {
    "tables": Situation(views={**PLAIN_VIEWS, **TABLE_VIEWS, **OTHER_VIEWS}),
    "empty": Situation(gateway={"facts": nothing}, views=PLAIN_VIEWS),
    "many": Situation(
        gateway={"tables": 10_000}, views={"tables": "/ui/", "graph-of-namespaces": "/ui/graph"}
    ),
    "starting": Situation(gateway={"trouble": STARTING}, views={**PLAIN_VIEWS, "late": table("revenue")}),
    "lost": Situation(gateway={"trouble": LOST}, views={**PLAIN_VIEWS, "late": table("revenue")}),
    "reader": Situation(
        gateway={"tokens": "ann:sql:geheim,bob:read:lesen,air:refresh:nur"},
        views={**PLAIN_VIEWS, "late": table("revenue"), "refresh-form": f"{table('revenue')}/refresh"},
        token="lesen",
    ),
}
GatewayOf = Callable[[str], WiredGateway]
