"""GET /graph: what the materialized tables read, and what reads them."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter, Request, Response

from mt_core.base.identifiers import display_name
from mt_core.errors import RequestInvalid, TableNotFound
from mt_core.gateway.facts import schemas
from mt_core.gateway.facts.answers import facts_router, overview_answer
from mt_core.gateway.facts.json_form import JSON, counts_json, node_json
from mt_core.gateway.facts.query import Parameter, Query, of_query, whole_number
from mt_core.gateway.http.schemas import described
from mt_core.gateway.services import GatewayServices
from mt_core.tables.overview.graph import Graph
from mt_core.tables.overview.overview import Overview

MOST_NODES = 150
OF = Parameter(
    name="of",
    description="The id of a materialized table, or the full name of a table, source or view. "
    "Absent: the namespaces only, with their numbers of tables by state and the edges between them.",
)
UP = whole_number("up", "The number of levels of readers.", least=0, most=100, usual=2)
DOWN = whole_number("down", "The number of levels of sources.", least=0, most=100, usual=2)
PARAMETERS = (OF, UP, DOWN)


def graph_router(services: GatewayServices) -> APIRouter:
    """Return the endpoint of the graph."""
    router = facts_router()

    @router.get(
        "/graph",
        **described(
            f"A table with what it reads and what reads it, at most {MOST_NODES} nodes",
            schemas.GRAPH,
            parameters=of_query(PARAMETERS),
            errors=schemas.FACT_ERRORS,
        ),
    )
    def get_graph(request: Request) -> Response:
        query = Query.of(request, PARAMETERS)
        up, down = query.number(UP), query.number(DOWN)

        def body(now: datetime) -> JSON:
            overview = services.facts.overview
            graph = Graph.of(overview.facts(now))
            if not query.text(OF.name):
                return {"as_of": now, **_namespaces(graph)}
            name = node_named(query, graph, overview, now)
            if name is None:
                raise TableNotFound(
                    f"{query.text(OF.name)} is neither a materialized table nor read by one; "
                    "GET /freshtable/v1/tables lists the tables with what they read."
                )
            part, further = graph.around(name, up=up, down=down, most=MOST_NODES)
            return {"as_of": now, **_part(part, further), "cause": list(graph.path_to_cause(name))}

        return overview_answer(request, services.facts, body)

    return router


def node_named(query: Query, graph: Graph, overview: Overview, now: datetime) -> str | None:
    """Return the name of the node that parameter `of` denotes, None if there is none."""
    text = query.text(OF.name)
    table = overview.table(text, now)
    if table is not None:
        return str(table.identifier)
    if text in graph.nodes:
        return text
    try:
        name = display_name(query.parts(OF.name))
    except RequestInvalid:
        return None
    return name if name in graph.nodes else None


def _part(graph: Graph, further: int) -> JSON:
    depths = graph.depths()
    return {
        "namespaces": [],
        "nodes": [node_json(node, depths[name]) for name, node in graph.nodes.items()],
        "edges": [
            {"reader": reader, "source": source}
            for reader, sources in graph.sources.items()
            for source in sources
        ],
        "further": further,
    }


def _namespaces(graph: Graph) -> JSON:
    groups = [{"name": group.name, "counts": counts_json(group.states)} for group in graph.groups()]
    edges = [{"reader": edge.reader, "source": edge.source} for edge in graph.group_edges()]
    return {"namespaces": groups, "nodes": [], "edges": edges, "further": len(graph.nodes), "cause": []}
