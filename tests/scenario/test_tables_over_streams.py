"""A materialized table over an unbounded source and its streaming job, as clients of a gateway see them."""

from __future__ import annotations

import pytest

from mt_core.model.connector_table import ConnectorTable, GeneratedRows
from mt_core.setup.status import Measure, statuses
from mt_core.tables.registry import in_transaction
from tests.support.gateway.whole import WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

ENDLESS = ConnectorTable(
    name="`lake`.`default`.`orders`",
    columns=("`id` INT",),
    clauses="",
    connector="datagen",
    query="SELECT 1 AS id",
    unbounded=GeneratedRows(items=("value",), rows_per_second=1),
)
KEPT = "CREATE MATERIALIZED TABLE kept FRESHNESS = INTERVAL '10' SECOND AS SELECT * FROM orders"


@pytest.fixture
def job(whole: WholeGateway) -> str:
    """Create the table, start its job, and return the job's id."""
    in_transaction(whole.process.registry, lambda tx: tx.connector_tables.put(ENDLESS))
    whole.perform(KEPT)
    whole.watch_streams()
    return shown(whole)["job id"]


def shown(whole: WholeGateway) -> dict[str, str]:
    [job] = whole.perform("SHOW JOBS LIKE 'refresh-%'")
    return job


def test_the_job_is_among_all_jobs_and_goes_on_with_the_next_gateway(whole: WholeGateway, job: str) -> None:
    whole.streams.source.append("x")
    whole.run_batch()
    before = shown(whole)

    whole.streams.lose(available=True)
    whole.kill()
    whole.start()
    whole.streams.source.append("y")
    whole.watch_streams()
    whole.run_batch()

    after = shown(whole)
    assert (before["kind"], before["status"]) == ("CONTINUOUS REFRESH", "RUNNING")
    assert (after["job id"], after["status"], whole.streams.sink) == (job, "RUNNING", ["x", "y"])
    whole.bury_zombies()


def test_stop_job_suspends_the_table_and_resume_lets_the_job_go_on(whole: WholeGateway, job: str) -> None:
    refused = whole.refused(f"STOP JOB '{job}' WITH SAVEPOINT")
    whole.perform(f"STOP JOB '{job}'")
    [suspended], stopped = whole.perform("SHOW MATERIALIZED TABLES EXTENDED"), shown(whole)["status"]
    whole.streams.source.append("x")
    whole.perform("ALTER MATERIALIZED TABLE kept RESUME")
    whole.watch_streams()
    whole.run_batch()

    assert (
        f"STOP JOB '{job}' suspends both, ALTER MATERIALIZED TABLE lake.default.kept RESUME continues them"
        in refused
    )
    assert (suspended["status"], suspended["status by"], stopped) == ("SUSPENDED", "STOP JOB", "SUSPENDED")
    assert (shown(whole)["status"], whole.streams.sink) == ("RUNNING", ["x"])


def test_a_dropped_table_takes_its_job_with_it(whole: WholeGateway, job: str) -> None:
    whole.perform("DROP MATERIALIZED TABLE kept")

    assert (shown(whole)["job id"], shown(whole)["status"]) == (job, "CANCELED")
    assert (whole.streams.running(), whole.streams.checkpoints) == (set(), {})


def test_the_status_names_a_table_whose_job_waits_for_its_checkpoint_until_it_is_resumed(
    whole: WholeGateway, job: str
) -> None:
    whole.streams.source.append("x")
    whole.run_batch()
    checkpoint, lost = f"memory:/c/{job}", dict(whole.streams.checkpoints)
    whole.streams.lose(available=True)
    whole.streams.checkpoints.clear()
    whole.kill()
    whole.start()
    whole.watch_streams(2)

    waiting = status_lines(whole)
    whole.streams.checkpoints |= lost
    whole.perform("ALTER MATERIALIZED TABLE kept RESUME")
    whole.watch_streams(2)
    resumed = status_lines(whole)
    whole.bury_zombies()

    reason = f"There is no checkpoint {checkpoint}"
    assert waiting == [
        f"  job refresh-lake.default.kept (CONTINUOUS REFRESH) is SUSPENDED: {reason}; DESCRIBE JOB '{job}'"
    ]
    assert resumed == []


def status_lines(whole: WholeGateway) -> list[str]:
    """Return the problems that `freshtable status` reports."""
    [status] = statuses([whole.process.server.url], lambda _url: None, Measure(since=whole.clock.now()), 10.0)
    return status.lines()[1:]
