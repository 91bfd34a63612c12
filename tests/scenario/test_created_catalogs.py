"""A user adds a catalog, reads from it with a materialized table, and stops a refresh as a job."""

from __future__ import annotations

from tests.support.gateway.whole import DAILY, EVERY_10_S, ORDERS, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

CATALOG = "CREATE CATALOG archive WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop', 'token' = 'hidden-1')"


def test_a_created_catalog_is_there_after_a_restart_and_is_not_copied_into_tables(
    whole: WholeGateway,
) -> None:
    whole.engine.create_source("archive.old.orders", ORDERS)
    whole.sql(CATALOG)
    whole.sql(EVERY_10_S.format("copied", "archive.old.orders"))

    whole.restart()

    assert {"catalog name": "archive"} in whole.sql("SHOW CATALOGS")
    assert "reads from it" in whole.refused("DROP CATALOG archive")
    assert "hidden-1" not in str(whole.state())
    whole.sql("DROP MATERIALIZED TABLE copied")
    whole.sql("DROP CATALOG archive")
    whole.restart()
    assert {"catalog name": "archive"} not in whole.sql("SHOW CATALOGS")


def test_stop_job_cancels_a_refresh_as_canceling_its_operation_does(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    hold = whole.hold_write("daily")
    operation = whole.client.execute("ALTER MATERIALIZED TABLE daily REFRESH")
    hold.wait_entered()
    [job] = whole.sql("SHOW JOBS")

    whole.sql(f"STOP JOB '{job['job id']}'")
    hold.release()
    whole.wait_quiet()

    assert (job["job name"], job["status"]) == ("refresh-lake.default.daily", "RUNNING")
    [described] = whole.sql(f"DESCRIBE JOB '{job['job id']}'")
    assert (described["status"], described["kind"], described["affected rows"]) == (
        "CANCELED",
        "REFRESH",
        None,
    )
    assert (described["job name"], described["target"]) == (job["job name"], "lake.default.daily")
    assert whole.show("status")[-1] == "CANCELED"
    assert "was cancelled" in whole.error_of(lambda: whole.rows(operation))
    assert whole.sql("SHOW JOBS") == []
