"""What a monitoring system gets at /metrics, and who may get it."""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest

from mt_core.base.access import parse_tokens
from mt_core.gateway.metrics import PATH
from mt_core.model.partition import PartitionSpec
from mt_core.tables.registry import in_transaction
from tests.installed_tools import tool
from tests.scenario.conftest import Switch
from tests.support.gateway.shared_app import app_of
from tests.support.gateway.statements import Gateway
from tests.support.gateway.whole import EVERY_10_S, START, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway
from tests.support.scrape import Scrape

TOKENS = parse_tokens("boss:admin:a,anna:sql:s,airflow:refresh:f,ops:read:r")
STOP_S = 10.0
FORMATS = {"text": "text/plain; version=0.0.4", "openmetrics": "application/openmetrics-text; version=1.0.0"}


def scrape(whole: WholeGateway, accept: str = "") -> Scrape:
    """Return the metrics after all events so far, as if some time had passed."""
    whole.process.tables.events.stop(STOP_S)
    whole.process.tables.overview.catch_up()
    return Scrape.of(answer(whole, accept).text)


def answer(whole: WholeGateway, accept: str = "") -> httpx.Response:
    answer = whole.http.get(PATH, headers={"Accept": accept})
    assert answer.status_code == 200, answer.text
    return answer


@pytest.fixture
def failing(whole: WholeGateway) -> WholeGateway:
    """A gateway with a table whose refreshes were skipped, succeeded, and then failed."""
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.wait_quiet()
    whole.pass_time(seconds=20)
    whole.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    whole.pass_time(seconds=10)
    whole.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 31}])
    whole.engine.poisoned.add(PartitionSpec.of({"ds": "2026-03-01"}))
    whole.pass_time(seconds=10)
    return whole


# ---------------------------------------------------------------------------------------------------- content


def test_the_counters_are_the_sums_of_the_ledger(failing: WholeGateway) -> None:
    found = scrape(failing)

    with failing.process.registry.reading() as tx:
        runs = tx.runs.newest()
    assert {run.status.value for run in runs} == {"SUCCEEDED", "SKIPPED", "FAILED"}
    expected = Counter(
        (run.kind.value, run.status.value, run.strategy or "", run.reason_code or "") for run in runs
    )
    labels = ("kind", "outcome", "strategy", "reason_code")
    assert found.by("freshtable_refreshes_total", *labels) == expected
    written = [run for run in runs if run.status == "SUCCEEDED"]
    assert found.by("freshtable_refresh_rows_total", "operation") == {
        ("insert",): sum(run.rows_inserted or 0 for run in written),
        ("update",): sum(run.rows_updated or 0 for run in written),
        ("delete",): sum(run.rows_deleted or 0 for run in written),
    }
    assert found.total("freshtable_refresh_read_bytes_total") == sum(run.bytes_read or 0 for run in written)
    durations = found.by("freshtable_refresh_duration_seconds_count", "step")
    assert durations["total",] == sum(run.status != "FAILED" for run in runs)
    periodic = sum(run.kind == "PERIODIC" for run in runs)
    assert found.total("freshtable_refresh_schedule_delay_seconds_count", scheduler="memory") == periodic


@pytest.mark.processes
def test_promtool_has_no_objection_to_the_metrics(failing: WholeGateway) -> None:
    text = answer(failing).text

    done = subprocess.run(
        [tool("promtool"), "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_counts_of_outcomes_are_those_of_show_refreshes(failing: WholeGateway) -> None:
    found = scrape(failing)

    shown = Counter((row["status"],) for row in failing.refreshes())

    assert found.by("freshtable_refreshes_total", "outcome") == shown


def test_a_table_becomes_late_at_the_instant_that_its_metric_has_said_before(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.wait_quiet()
    before = scrape(whole)
    whole.process.scheduler.close()

    [late_at] = before.by("freshtable_table_late_at_timestamp_seconds").values()
    whole.clock.advance(timedelta(seconds=late_at - START.timestamp() - 1))
    a_second_before = scrape(whole)
    whole.clock.advance(timedelta(seconds=1))
    late = scrape(whole)

    for found, count in ((before, 0), (a_second_before, 0), (late, 1)):
        assert sum(found.by("freshtable_tables_late").values()) == count
        assert found.total("freshtable_tables", state="LATE", mode="FULL") == count
        assert list(found.by("freshtable_table_late_at_timestamp_seconds").values()) == [late_at]
    assert late.total("freshtable_tables_late", fault="schedule") == 1


def test_a_table_that_fails_and_one_that_is_suspended_are_named(failing: WholeGateway) -> None:
    failing.engine.poisoned.clear()
    failing.sql(EVERY_10_S.format("resting", "orders"))
    failing.wait_quiet()
    failing.sql("ALTER MATERIALIZED TABLE resting SUSPEND")

    found = scrape(failing)

    assert [*found.by("freshtable_table_failing", "table_name")] == [("often",)]
    assert found.by("freshtable_table_suspended", "table_name") == {("often",): 0.0, ("resting",): 1.0}
    assert [*found.by("freshtable_table_late_at_timestamp_seconds", "table_name")] == [("often",)]


@pytest.mark.parametrize("accept", FORMATS.values(), ids=FORMATS)
def test_a_dropped_table_has_no_series_and_a_strange_name_is_only_text(
    whole: WholeGateway, accept: str
) -> None:
    name = 'it\'s "ü" <b>{x="1"} 2'
    whole.engine.create_source("lake.default.s", [{"ds": "2026-02-28", "amount": 1}])
    whole.sql(EVERY_10_S.format("gone", "orders"))
    whole.sql(EVERY_10_S.format(f"`{name}`", "s"))
    whole.wait_quiet()
    whole.sql("DROP MATERIALIZED TABLE gone")

    found = scrape(whole, accept)

    labels = ("table_catalog", "table_schema", "table_name")
    assert [*found.by("freshtable_table_suspended", *labels)] == [("lake", "default", name)]


def test_both_formats_have_the_same_samples_with_the_content_type_that_was_asked_for(
    failing: WholeGateway,
) -> None:
    found = {name: scrape(failing, accept) for name, accept in FORMATS.items()}

    types = {name: answer(failing, accept).headers["content-type"] for name, accept in FORMATS.items()}
    assert types == {
        "text": "text/plain; version=0.0.4; charset=utf-8",
        "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
    }
    text, openmetrics = (
        {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in samples}
        for samples in (
            # The scrape itself is counted as a request.
            [
                sample
                for family in found[name].families
                for sample in family.samples
                if "_http_" not in sample.name
            ]
            for name in FORMATS
        )
    )
    assert text == openmetrics


def test_metrics_of_tables_are_missing_while_the_overview_is_built(whole: WholeGateway) -> None:
    built = Scrape.of(answer(whole).text)

    assert built.samples("freshtable_tables") == []
    assert built.total("freshtable_gateway_start_timestamp_seconds") == START.timestamp()
    assert len(scrape(whole).samples("freshtable_tables")) == 14


def test_a_scrape_takes_no_turn_of_the_registry_and_reads_nothing(failing: WholeGateway) -> None:
    scrape(failing)
    # While a transaction is open, another one, and a scrape that needs one, would wait.
    seen = in_transaction(failing.process.registry, lambda _tx: answer(failing).status_code)
    failing.process.registry.close()

    assert seen == 200
    assert answer(failing).status_code == 200


def test_counters_begin_again_with_the_next_gateway(failing: WholeGateway) -> None:
    before = scrape(failing)
    failing.restart()

    after = scrape(failing)

    assert sum(before.by("freshtable_refreshes_total").values()) > 0
    assert sum(after.by("freshtable_refreshes_total").values()) == 0
    assert after.by("freshtable_table_failing", "table_name") == {("often",): 1.0}


def test_a_run_of_a_killed_gateway_is_counted_by_the_gateway_that_ends_it(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.wait_quiet()
    frozen = whole.freeze_before("published")
    assert whole.refresh("lake.default.often").is_success
    frozen.wait_entered()
    whole.kill()
    whole.start()
    whole.wait_quiet()

    found = scrape(whole)

    frozen.release()
    whole.bury_zombies()

    assert found.by("freshtable_refresh_attempts_lost_total", "cause")["gateway",] == 1
    assert found.total("freshtable_refreshes_total", kind="MANUAL", outcome="SUCCEEDED") == 1


# ----------------------------------------------------------------------------------------------------- access


def as_(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"} if secret else {}


@pytest.mark.parametrize(
    ("secret", "status"), [("r", 200), ("s", 200), ("a", 200), ("f", 403), ("", 401), ("x", 401)]
)
def test_metrics_are_for_roles_that_may_read(
    gateway: Gateway, switch: Switch, secret: str, status: int
) -> None:
    metrics = lambda _accept: (b"freshtable_up 1\n", "text/plain")  # noqa: E731
    switch.app = app_of(replace(gateway.services, tokens=TOKENS, metrics=metrics))

    assert gateway.http.get(PATH, headers=as_(secret)).status_code == status


@pytest.mark.parametrize("secret", ["", "f", "x"])
def test_public_metrics_need_no_token_and_everything_else_does(
    gateway: Gateway, switch: Switch, secret: str
) -> None:
    metrics = lambda _accept: (b"freshtable_up 1\n", "text/plain")  # noqa: E731
    services = replace(gateway.services, tokens=TOKENS, metrics=metrics, public=frozenset({PATH}))
    switch.app = app_of(services)

    assert gateway.http.get(PATH, headers=as_(secret)).text == "freshtable_up 1\n"
    assert gateway.http.get("/freshtable/v1/tables", headers=as_(secret)).status_code in (401, 403)
    assert gateway.http.get(f"/v4{PATH}", headers=as_(secret)).status_code == 404


def test_a_web_page_of_another_site_does_not_get_public_metrics(gateway: Gateway, switch: Switch) -> None:
    switch.app = app_of(replace(gateway.services, public=frozenset({PATH})))

    foreign = gateway.http.get(PATH, headers={"Origin": "https://evil.example"})
    strange = gateway.http.get(PATH, headers={"Host": "rebound.example"})

    assert (foreign.status_code, strange.status_code) == (403, 403)


def test_without_the_extra_the_answer_says_how_to_install_it(gateway: Gateway) -> None:
    answer = gateway.http.get(PATH)

    assert (answer.status_code, answer.headers["Freshtable-Error"]) == (404, "NOT_FOUND")
    assert "Metrics need the package prometheus_client; install the extra 'metrics'" in answer.text
