"""Connects the endpoints with the services of statements and tables."""

from __future__ import annotations

from functools import partial

from mt_core import __version__
from mt_core.app.statement_wiring import StatementServices
from mt_core.app.table_wiring import TableWork
from mt_core.gateway.services import FactServices, GatewayServices, ProductInfo
from mt_core.sessions.ports import PlanFiles
from mt_core.sessions.refreshes import OperationFinder
from mt_core.sessions.sessions import SessionManager
from mt_core.tables.workflows.workflow_facts import workflow_facts


def wire_endpoints(
    tables: TableWork, statements: StatementServices, sessions: SessionManager, plans: PlanFiles
) -> GatewayServices:
    """Return the services that all endpoints share, without tokens and loops."""
    engine, requests = tables.services.engine, tables.manager.requests
    return GatewayServices(
        sessions=sessions,
        executor=statements.executor,
        jobs=statements.jobs,
        hooks=statements.hooks,
        names=statements.names,
        operations=OperationFinder(sessions, requests, engine.state.cluster_info),
        runs=requests,
        facts=FactServices(
            overview=tables.services.overview,
            reading=tables.services.registry.reading,
            workers=tables.refresh_threads,
            started_at=tables.services.clock.now(),
        ),
        info=ProductInfo(version=__version__),
        engine_trouble=engine.state.trouble,
        engine_note=engine.state.note,
        scheduler_trouble=tables.scheduler_watch.trouble,
        published=tables.published,
        workflow=partial(workflow_facts, tables.services),
        plans=plans,
    )
