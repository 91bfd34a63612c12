"""The endpoint of the graph: a table with what it reads and what reads it, or the namespaces.

The whole graph is never drawn. With parameter `of`, the view has the levels around that table that the
visitor asks for, and in any case the path from a late table to its cause. Without it, the view has the
namespaces, the worst first if there are too many. What is drawn around a table is also written as two trees
of links, for narrow screens and for screen readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request, Response

from mt_core.base.identifiers import namespace_of
from mt_core.errors import RequestInvalid, TableNotFound
from mt_core.gateway.facts.graph import DOWN, MOST_NODES, OF, PARAMETERS, UP, node_named
from mt_core.gateway.page.graph.causes import Lateness
from mt_core.gateway.page.graph.links import Levels, Links
from mt_core.gateway.page.graph.picture import picture_around, picture_of_namespaces
from mt_core.gateway.page.page import Page
from mt_core.gateway.page.sentences import sentence
from mt_core.gateway.page.trees import read_by, reads
from mt_core.tables.overview.facts import TableFacts, searched_text
from mt_core.tables.overview.graph import Graph, NamespaceGroup
from mt_core.tables.overview.lateness import State
from mt_core.tables.overview.overview import Overview, Progress

MOST_LATE, MOST_NAMES, MOST_LINES = 6, 8, 2 * MOST_NODES
_DRAWN_EVERY_S = 60


def graph_router(page: Page) -> APIRouter:
    """Return the endpoint of the graph."""
    router, graphs = page.router(), _Graphs()

    @router.get("/graph")
    def get_graph(request: Request) -> Response:
        query, now = page.query(request, PARAMETERS), page.now()
        up, down, text = query.number(UP), query.number(DOWN), query.text(OF.name)
        overview, links = page.services.facts.overview, Links(page.base)
        if not text and (query.text(UP.name) or query.text(DOWN.name)):
            raise RequestInvalid(f"{UP.name} and {DOWN.name} are levels around a table: add {OF.name}=NAME.")
        # Drawn again from time to time even if nothing happens, because the bars move.
        version = f"{overview.version(now)} {overview.progress} {now.timestamp() // _DRAWN_EVERY_S:.0f}"
        graph = graphs.at(overview, now)
        if not text:
            return page.answer(request, "graph.html", lambda: _namespaces(graph, links), version=version)
        name = node_named(query, graph, overview, now)
        if name is None:
            return page.redirect(
                "/graph", **{**query.texts, OF.name: _only_one(text, graph, overview.progress)}
            )
        return page.answer(
            request,
            "graph.html",
            lambda: _around(graph, name, links, now, up=up, down=down),
            version=version,
        )

    return router


def _only_one(text: str, graph: Graph, progress: Progress) -> str:
    """Return the name of the only table or source that is called *text*, in any namespace.

    Raises TableNotFound with the names that contain *text* if there is none, or more than one.
    """
    wanted = searched_text(text)
    matching = sorted(name for name in graph.nodes if wanted in searched_text(name))
    called = [name for name in matching if searched_text(namespace_of(name)[-1]) == wanted]
    if len(called) == 1:
        return called[0]
    if progress.read < progress.total:
        raise TableNotFound(
            f"{text} is not among the tables that have been read: {progress.read:,} of {progress.total:,}. "
            "Reload this page in a moment."
        )
    if called or matching:
        names = called or matching
        further = f" and {len(names) - MOST_NAMES:,} further" if len(names) > MOST_NAMES else ""
        raise TableNotFound(
            f"{text} is not the full name of a table or source. Names that contain it: "
            f"{', '.join(names[:MOST_NAMES])}{further}."
        )
    raise TableNotFound(f"{text} is neither a materialized table nor read by one.")


class _Graphs:
    """The graph of all tables, made once for each version of the overview."""

    def __init__(self) -> None:
        self._newest: tuple[Overview, str, Graph] | None = None

    def at(self, overview: Overview, now: datetime) -> Graph:
        version, newest = overview.version(now), self._newest
        if newest is None or newest[0] is not overview or newest[1] != version:
            newest = self._newest = overview, version, Graph.of(overview.facts(now))
        return newest[2]


def _around(graph: Graph, name: str, links: Links, now: datetime, *, up: int, down: int) -> Mapping[str, Any]:
    path = graph.path_to_cause(name)
    part, further = graph.around(name, up=up, down=down, most=MOST_NODES, path=path)
    lateness = Lateness.within(part)
    node = graph.nodes[name]
    return {
        "name": name,
        "node": node,
        "says": () if node.facts is None else sentence(node.facts),
        "to_cause": path,
        "causes": lateness.causes,
        "picture": picture_around(name, part, graph, lateness, links, now),
        "reads": reads(part, name, lines=MOST_LINES, levels=MOST_NODES),
        "read_by": read_by(part, name, lines=MOST_LINES, levels=MOST_NODES),
        "further": further,
        "sources": Levels.of(down, graph.below(name), lambda levels: links.around(name, up, levels)),
        "readers": Levels.of(up, graph.above(name), lambda levels: links.around(name, levels, down)),
        "links": links,
    }


def _namespaces(graph: Graph, links: Links) -> Mapping[str, Any]:
    groups = sorted(graph.groups(), key=_urgency)
    shown = sorted(groups[:MOST_NODES], key=lambda group: group.name)
    late = [
        node.facts
        for node in graph.nodes.values()
        if node.facts is not None and node.state is State.LATE and node.facts.late_at is not None
    ]
    late.sort(key=_since)
    return {
        "name": "",
        "picture": picture_of_namespaces(shown, graph.group_edges(), links),
        "further": len(groups) - len(shown),
        "late": [(facts, sentence(facts)) for facts in late[:MOST_LATE]],
        "further_late": max(len(late) - MOST_LATE, 0),
        "links": links,
    }


def _urgency(group: NamespaceGroup) -> tuple[int, ...]:
    """Return what sorts the namespaces with the most late tables first, then those with failing ones."""
    states = group.states
    worst = (State.LATE, State.FAILING, State.DOUBTED, State.SOON, State.SUSPENDED, State.OK)
    return tuple(-states.get(state, 0) for state in worst)


def _since(facts: TableFacts) -> tuple[bool, float]:
    """Return what sorts tables that are late by themselves first, and those that are late longest."""
    late_at = facts.late_at
    return facts.inherited, 0.0 if late_at is None else late_at.timestamp()
