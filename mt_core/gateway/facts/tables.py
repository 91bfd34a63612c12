"""GET /tables and GET /tables/{table_id}: the materialized tables, and reading one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from fastapi import APIRouter, Request, Response

from mt_core.gateway.facts import schemas
from mt_core.gateway.facts.answers import facts_router, overview_answer, unknown_table
from mt_core.gateway.facts.json_form import JSON, details_json, id_of, table_json
from mt_core.gateway.facts.listing import PARAMETERS, Listed, Listing
from mt_core.gateway.facts.query import Query, of_query
from mt_core.gateway.http.schemas import described
from mt_core.gateway.services import FactServices, GatewayServices
from mt_core.model.table import MaterializedTable
from mt_core.tables.overview.facts import TableFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTable:
    """One table at an instant: its facts or why it cannot be read, its row, and the facts of all tables.

    `stored` is None if the row cannot be read.
    """

    listed: Listed
    stored: MaterializedTable | None
    tables: Sequence[Listed]

    @classmethod
    def read(cls, facts: FactServices, table_id: str, now: datetime) -> ShownTable:
        """Return the table with this id at *now*. Raises TableNotFound."""
        with facts.reading() as tx, tx.past_unreadable():
            stored = tx.tables.get(table_id)
        overview = facts.overview
        if stored is not None and overview.table(table_id, now) is None:
            # The overview is still being built, or the table has just been created.
            overview.catch_up()
        tables = overview.facts(now)
        listed = next((each for each in tables if id_of(each) == table_id), None)
        if listed is None or (stored is None and isinstance(listed, TableFacts)):
            # The table may also have been dropped between the two reads.
            raise unknown_table(table_id)
        return cls(listed=listed, stored=stored, tables=tables)

    @property
    def read_by(self) -> list[str]:
        """The names of the tables that read this one, now or at an earlier version."""
        name = str(self.listed.identifier)
        at_version = f"{name} AS OF "
        return [
            str(table.identifier)
            for table in self.tables
            if isinstance(table, TableFacts)
            and any(read.name == name or read.name.startswith(at_version) for read in table.reads)
        ]


def tables_router(services: GatewayServices) -> APIRouter:
    """Return the endpoints of materialized tables."""
    router = facts_router("/tables")

    @router.get("", **described("Materialized tables", schemas.TABLES, parameters=of_query(PARAMETERS)))
    def get_tables(request: Request) -> Response:
        listing = Listing.of(Query.of(request, PARAMETERS))

        def body(now: datetime) -> JSON:
            overview = services.facts.overview
            progress = overview.progress
            read = {"as_of": now, "read": progress.read, "total": progress.total}
            return {**read, **listing.page(overview.facts(now), now)}

        return overview_answer(request, services.facts, body)

    @router.get(
        "/{table_id}",
        **described("A materialized table", schemas.TABLE_DETAILS, errors=schemas.FACT_ERRORS),
    )
    def get_table(table_id: str, request: Request) -> Response:
        Query.of(request)

        def body(now: datetime) -> JSON:
            shown = ShownTable.read(services.facts, table_id, now)
            stored = shown.stored
            details = dict.fromkeys(schemas.DETAILS) if stored is None else details_json(stored)
            return {"as_of": now, **table_json(shown.listed, now), **details, "read_by": shown.read_by}

        return overview_answer(request, services.facts, body)

    return router
