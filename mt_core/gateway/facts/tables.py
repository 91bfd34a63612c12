"""GET /tables and GET /tables/{table_id}: the materialized tables."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from fastapi import APIRouter, Request, Response

from mt_core.gateway.facts import schemas
from mt_core.gateway.facts.answers import facts_router, overview_answer, unknown_table
from mt_core.gateway.facts.json_form import JSON, details_json, id_of, table_json
from mt_core.gateway.facts.listing import PARAMETERS, Listed, Listing
from mt_core.gateway.facts.query import Query, of_query
from mt_core.gateway.http.schemas import described
from mt_core.gateway.services import GatewayServices
from mt_core.tables.overview.facts import TableFacts


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
            with services.facts.reading() as tx, tx.past_unreadable():
                stored = tx.tables.get(table_id)
            overview = services.facts.overview
            if stored is not None and overview.table(table_id, now) is None:
                # The overview is still being built, or the table has just been created.
                overview.catch_up()
            tables = overview.facts(now)
            listed = next((each for each in tables if id_of(each) == table_id), None)
            if listed is None or (stored is None and isinstance(listed, TableFacts)):
                raise unknown_table(table_id)
            details = dict.fromkeys(schemas.DETAILS) if stored is None else details_json(stored)
            read_by = _readers(str(listed.identifier), tables)
            return {"as_of": now, **table_json(listed, now), **details, "read_by": read_by}

        return overview_answer(request, services.facts, body)

    return router


def _readers(name: str, tables: Iterable[Listed]) -> list[str]:
    """Return the names of the tables that read *name*, now or at an earlier version."""
    at_version = f"{name} AS OF "
    return [
        str(table.identifier)
        for table in tables
        if isinstance(table, TableFacts)
        and any(read.name == name or read.name.startswith(at_version) for read in table.reads)
    ]
