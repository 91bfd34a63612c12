from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mt_core.app.statement_wiring import StatementPorts, wire_statements
from mt_core.app.stream_wiring import wire_streams
from mt_core.base.tokens import split_statements
from mt_core.clock import SystemClock
from mt_core.jobs.store import JobStore
from mt_core.sessions.catalog.connector_tables import ConnectorTables
from mt_core.sessions.catalog.created_catalogs import CreatedCatalogs
from mt_core.sessions.catalog.created_functions import CreatedFunctions
from mt_core.sessions.operations.operation import Operation, OperationStatus
from mt_core.sessions.session import Session
from mt_core.spark.contexts import SparkContexts
from mt_core.spark.driver.conf import catalog_names
from mt_core.spark.driver.spark_driver import SparkDriver
from mt_core.spark.statements.spark_statements import SparkStatements
from mt_core.tables.upkeep.registered import RegisteredTables
from tests.integration.refresh_world import RefreshWorld
from tests.support.fake_plans import FakePlans
from tests.support.fake_streams import FakeStreams
from tests.support.gateway.wired import stream_ports

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SCRIPTS = sorted((Path(__file__).parents[1] / "assets" / "flink_sql").glob("*.sql"))
_TOLD = re.compile(r"^-- (refused|gives): (.*)$", re.MULTILINE)


class Scripts:
    """A session of a gateway whose tables are filled by their first scheduled refresh."""

    def __init__(self, driver: SparkDriver, folder: Path) -> None:
        world = RefreshWorld(driver, initial_refresh=False)
        catalogs = CreatedCatalogs(world.registry, reserved=catalog_names(driver.settings))
        engine = SparkStatements(
            SparkContexts(driver, catalogs.settings), tables=RegisteredTables(world.registry)
        )
        jobs = JobStore(world.registry, owner="scripts", clock=SystemClock())
        self.executor = wire_statements(
            StatementPorts(
                engine=engine,
                commands=world.manager,
                runs=world.manager.requests,
                clock=SystemClock(),
                cluster_info=world.engine.state.cluster_info,
                catalogs=catalogs,
                jobs=jobs,
                connector_tables=ConnectorTables(world.registry),
                functions=CreatedFunctions(world.registry),
                streams=wire_streams(stream_ports(FakeStreams(), engine, jobs, SystemClock())).streams,
                plans=FakePlans(),
                threads=8,
            )
        ).executor
        self.session = Session(
            f"scripts-{folder.name}", name=None, defaults={}, properties={}, opened_at=SystemClock().now()
        )

    def run(self, text: str) -> Operation:
        operation = self.executor.submit(self.session, text)
        while not operation.wait(1.0):
            pass
        return operation


@pytest.fixture
def scripts(spark_driver: SparkDriver, tmp_path: Path) -> Iterator[Scripts]:
    made = Scripts(spark_driver, tmp_path)
    yield made
    made.executor.close()


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.stem for script in SCRIPTS])
def test_a_script_in_flinks_words_runs_or_is_refused_with_a_way_out(scripts: Scripts, script: Path) -> None:
    text, end, unlike = script.read_text(encoding="utf-8"), 0, []

    for statement in split_statements(text):
        told = dict(_TOLD.findall(text[end : statement.start]))
        end = statement.start + len(statement.text)
        operation = scripts.run(statement.text)
        if not _is_as_told(operation, told):
            unlike.append((statement.text, operation.status, str(operation.error), _rows(operation), told))

    assert unlike == [], "\n".join(map(str, unlike))


def _is_as_told(operation: Operation, told: dict[str, str]) -> bool:
    if "refused" in told:
        return operation.error is not None and re.search(told["refused"], str(operation.error)) is not None
    if operation.status is not OperationStatus.FINISHED:
        return False
    return "gives" not in told or _rows(operation) == json.loads(told["gives"])


def _rows(operation: Operation) -> Any:
    rows = operation.result.rows if operation.result is not None else None
    return rows.page(0, 100) if rows is not None else []
