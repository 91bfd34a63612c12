"""The page of the gateway: its health, in words like those of `freshtable doctor`, and its loops.

Each finding is about one subject. A problem says what it prevents or what to do; the order is that in which
a person on call looks.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psutil
from fastapi import APIRouter, Request, Response

from mt_core.base.background import LoopState
from mt_core.base.plural import plural
from mt_core.gateway.facts.gateway import OF_WORKERS
from mt_core.gateway.page.formats import count_text, number_text, size_text, span_text
from mt_core.gateway.page.page import Page
from mt_core.gateway.services import GatewayServices
from mt_core.model.finding import Finding, Level
from mt_core.model.run import RunStatus
from mt_core.sessions.ports import ResultSpace
from mt_core.tables.overview.overview import Progress
from mt_core.tables.registry import Backlog

# A refresh that has waited for longer than this for a worker is worth knowing.
LONG_WAIT = timedelta(minutes=1)
# As the alert FreshtableLoopDead: this long without success, and this many periods.
SILENT_FOR, SILENT_PERIODS = timedelta(minutes=10), 3
SLOW_REGISTRY_S = 0.5
_PURPOSES = {
    "streams": "starts, restarts and ends streaming jobs",
    "reconciler": "finishes commands that a crash interrupted, and notices changes made in the scheduler",
    "scheduler": "asks for the health of the scheduler",
    "jobs": "closes jobs of ended gateways",
    "job hooks": "calls the hooks of jobs",
    "overview": "keeps the facts about tables up to date",
    "hours of freshness": "records the history of staleness",
    "check": "compares tables with their queries",
    "maintenance": "deletes old snapshots, files, refreshes and jobs",
    "sessions": "closes idle sessions",
    "backlog": "measures the queue",
    "spark workload": "measures the work of Spark",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayFacts:
    """What is known of the gateway at the instant `now`.

    `scheduler_trouble` is None if the health of the scheduler is unknown. `running` refreshes occupy a
    worker. `registry_s` is the time of a read of the registry in seconds, and `memory` the number of bytes
    that the gateway's process occupies, without Spark. `missing_libraries` are those that the page lacks.
    """

    now: datetime
    engine_trouble: str
    engine_note: str
    scheduler_trouble: str | None
    workers: int
    running: int
    backlog: Backlog
    progress: Progress
    loops: Sequence[LoopState]
    started_at: datetime
    sessions: int
    registry_s: float
    memory: int
    results: ResultSpace
    tokens: int
    missing_libraries: Sequence[str] = ()

    @property
    def version(self) -> str:
        """Text that changes whenever the findings do, apart from ages and sizes."""
        stated = [
            (
                loop.name,
                loop.failures,
                self.now - loop.succeeded_at > SILENT_FOR if loop.succeeded_at else None,
            )
            for loop in self.loops
        ]
        # The instants of loops change every second; ten seconds are often enough to show them.
        tick = int(self.now.timestamp()) // 10
        facts = repr((self.engine_trouble, self.engine_note, self.scheduler_trouble, stated, tick))
        return hashlib.sha256(
            (facts + repr((self.backlog, self.progress, self.sessions))).encode()
        ).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLoop:
    """A loop with what it is for, and what is wrong with it, "" if it works."""

    name: str
    purpose: str
    every_s: float
    succeeded_at: datetime | None
    trouble: str


def gateway_router(page: Page) -> APIRouter:
    """Return the endpoint of the page of the gateway."""
    router = page.router()

    @router.get("/gateway")
    def get_gateway(request: Request) -> Response:
        page.query(request)
        facts = read_gateway(page.services, page.now(), page.static.libraries)
        findings = list(findings_of(facts))
        loops = [shown_loop(loop, facts) for loop in facts.loops]

        def shown() -> Mapping[str, Any]:
            problems = sum(finding.level is Level.PROBLEM for finding in findings)
            return {"findings": findings, "loops": loops, "problems": problems, "gateway": facts}

        return page.answer(request, "gateway.html", shown, version=facts.version)

    return router


def read_gateway(services: GatewayServices, now: datetime, libraries: frozenset[str]) -> GatewayFacts:
    """Return the facts about the gateway at *now*; *libraries* are those that the page has."""
    facts = services.facts
    began = time.perf_counter()
    with facts.reading() as tx:
        backlog = tx.runs.backlog()
        with tx.past_unreadable():
            running = tx.runs.newest(statuses=(RunStatus.RUNNING,), kinds=OF_WORKERS)
    took = time.perf_counter() - began
    return GatewayFacts(
        now=now,
        engine_trouble=services.engine_trouble(),
        engine_note=services.engine_note(),
        scheduler_trouble=services.scheduler_trouble(),
        workers=facts.workers,
        running=len(running),
        backlog=backlog,
        progress=facts.overview.progress,
        loops=tuple(facts.loops()),
        started_at=facts.started_at,
        sessions=len(services.sessions),
        registry_s=took,
        memory=psutil.Process().memory_info().rss,
        results=services.executor.result_space(),
        tokens=len(services.tokens),
        missing_libraries=() if "htmx.js" in libraries else ("htmx",),
    )


def findings_of(facts: GatewayFacts) -> Iterator[Finding]:
    """Yield what there is to say about the gateway, one finding for each subject."""
    yield _spark(facts)
    yield _scheduler(facts)
    yield _workers(facts)
    yield _overview(facts)
    yield _loops(facts)
    yield _registry(facts)
    yield _memory(facts)
    yield _access(facts)
    if facts.missing_libraries:
        yield Finding.note(
            "page",
            "the libraries for live updates and charts are missing, so pages do not update themselves",
            "run freshtable doctor on the gateway's machine: its check of the jars says what is missing",
        )


def shown_loop(loop: LoopState, facts: GatewayFacts) -> ShownLoop:
    """Return a loop as the page shows it."""
    return ShownLoop(
        name=loop.name,
        purpose=_PURPOSES.get(loop.name, ""),
        every_s=loop.every.total_seconds(),
        succeeded_at=loop.succeeded_at,
        trouble=loop_trouble(loop, facts.now, facts.started_at),
    )


def loop_trouble(loop: LoopState, now: datetime, started_at: datetime) -> str:
    """Return what is wrong with a loop, or "" if it works."""
    silent = now - (loop.succeeded_at or started_at)
    if loop.failures:
        return f"its last {count_text(loop.failures, 'pass', 'passes')} failed"
    if silent > SILENT_FOR and silent > SILENT_PERIODS * loop.every:
        return f"no pass has succeeded for {span_text(silent)}"
    return ""


def _spark(facts: GatewayFacts) -> Finding:
    if facts.engine_trouble:
        return Finding.problem(
            "Spark",
            facts.engine_trouble,
            "until Spark accepts work, refreshes and statements wait; tables keep the rows that they have",
        )
    if facts.engine_note:
        return Finding.note("Spark", f"accepts work. {facts.engine_note}")
    return Finding.ok("Spark", "accepts work")


def _scheduler(facts: GatewayFacts) -> Finding:
    trouble = facts.scheduler_trouble
    if trouble is None:
        return Finding.note("scheduler", "has not reported its health yet")
    if trouble:
        way_out = "until it starts refreshes, tables become late; a refresh can be requested by hand"
        return Finding.problem("scheduler", trouble, way_out)
    return Finding.ok("scheduler", "starts refreshes")


def _workers(facts: GatewayFacts) -> Finding:
    backlog = facts.backlog
    queued = sum(backlog.queued.values())
    ready = queued - backlog.waiting
    text = f"{number_text(facts.running)} of {number_text(facts.workers)} busy"
    if ready:
        text += f", {count_text(ready, 'refresh waits', 'refreshes wait')} for one"
    if backlog.waiting:
        text += f", {count_text(backlog.waiting, 'waits', 'wait')} for refreshes of other tables"
    oldest = min(backlog.oldest.values(), default=None)
    if oldest is not None and facts.now - oldest > LONG_WAIT and not facts.engine_trouble:
        return Finding.note(
            "workers",
            f"{text}; the oldest has waited for {span_text(facts.now - oldest)}",
            "raise materialized-table.refresh.max-concurrent and the resources of Spark, or lengthen the "
            "freshness of tables",
        )
    return Finding.ok("workers", text)


def _overview(facts: GatewayFacts) -> Finding:
    read, total = facts.progress.read, facts.progress.total
    if read < total:
        return Finding.note(
            "tables", f"{number_text(read)} of {number_text(total)} read since the start; the others follow"
        )
    return Finding.ok("tables", f"{count_text(total, 'materialized table')}, all read")


def _loops(facts: GatewayFacts) -> Finding:
    failing = [loop.name for loop in facts.loops if loop_trouble(loop, facts.now, facts.started_at)]
    if failing:
        return Finding.problem(
            "loops",
            f"{', '.join(failing)} {plural(len(failing), 'does', 'do')} not succeed",
            'the gateway\'s log has the error: lines with "action": "background_failed"',
        )
    return Finding.ok("loops", f"{count_text(len(facts.loops), 'loop')} in the background, all succeed")


def _registry(facts: GatewayFacts) -> Finding:
    text = f"answers in {facts.registry_s * 1000:.0f} ms"
    if facts.registry_s > SLOW_REGISTRY_S:
        return Finding.note("registry", text, "look at the load and the disk of its database")
    return Finding.ok("registry", text)


def _memory(facts: GatewayFacts) -> Finding:
    results = facts.results
    text = f"the gateway's process occupies {size_text(facts.memory)}, without Spark"
    if results.memory or results.disk:
        text += f"; results that clients have not fetched: {size_text(results.memory)} in memory"
        if results.memory_limit:
            text += f" of {size_text(results.memory_limit)}"
        text += f", {size_text(results.disk)} in files"
    if results.memory_limit and results.memory > 0.9 * results.memory_limit:
        return Finding.note("memory", text, "further results are written to files, which is slower")
    return Finding.ok("memory", text)


def _access(facts: GatewayFacts) -> Finding:
    sessions = count_text(facts.sessions, "open session")
    if not facts.tokens:
        return Finding.note(
            "access",
            f"{sessions}; without tokens, everyone who can reach the gateway may read and change everything",
            "set sql-gateway.security.tokens if others use this machine",
        )
    return Finding.ok("access", f"{count_text(facts.tokens, 'token')}, {sessions}")
