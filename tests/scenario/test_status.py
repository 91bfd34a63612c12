"""`freshtable status` and `freshtable doctor` next to a whole gateway."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from mt_core import __version__
from mt_core.cli import app
from mt_core.errors import QueryFailed, TableProtected
from mt_core.model.partition import PartitionSpec
from scheduler_plugins.memory.scheduler import MemoryScheduler
from tests.support.gateway.whole import DAILY, EVERY_10_S, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway


def freshtable(whole: WholeGateway, *arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"FRESHTABLE_GATEWAY": whole.process.server.url})


def monitored(whole: WholeGateway, arguments: Sequence[str] = ()) -> tuple[int, dict[str, Any]]:
    result = freshtable(whole, "status", "--json", *arguments)
    [gateway] = json.loads(result.stdout)["gateways"]
    return result.exit_code, gateway


def test_a_gateway_whose_tables_are_fresh_is_well(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.pass_time(seconds=10)

    result = freshtable(whole, "status")

    url = whole.process.server.url
    expected = f"{url}: version {__version__}, Spark is ready; 1 table, 0 in trouble, 0 failed jobs\n"
    assert (result.exit_code, result.stdout) == (0, expected)


def test_a_table_whose_refreshes_fail_is_trouble_until_one_succeeds(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])
    whole.engine.poisoned.add(PartitionSpec.of({"ds": "2026-03-01"}))

    whole.pass_time(seconds=10)
    failing = monitored(whole)
    whole.engine.poisoned.clear()
    whole.pass_time(seconds=10)
    healed = monitored(whole)

    assert (failing[0], [each["trouble"] for each in failing[1]["troubles"]]) == (1, ["FAILING"])
    assert failing[1]["troubles"][0]["table"] == "lake.default.often"
    assert (healed[0], healed[1]["troubles"]) == (0, [])


def test_partitions_in_doubt_are_trouble_until_they_are_computed(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    whole.pass_time(days=1)
    source = whole.engine.sources["lake.default.orders"]
    source.expired.add(source.current)
    whole.engine.commit("lake.default.orders", [{"ds": "2026-03-01", "amount": 30}])

    whole.pass_time(days=1)
    doubted = monitored(whole, ["--ignore", "writer"])
    whole.restart()
    whole.sql("ALTER MATERIALIZED TABLE daily REFRESH")
    healed = monitored(whole, ["--ignore", "writer"])

    assert (doubted[0], [each["trouble"] for each in doubted[1]["troubles"]]) == (1, ["DOUBTED"])
    assert "changed in every partition but ds=2026-03-02" in doubted[1]["troubles"][0]["reason"]
    assert (healed[0], healed[1]["troubles"]) == (0, [])


def test_a_table_whose_sources_nobody_writes_to_is_late_only_if_that_is_asked_for(
    whole: WholeGateway,
) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    for _ in range(6):
        whole.pass_time(seconds=10)

    usual = monitored(whole)
    late = monitored(whole, ["--writer"])
    ignored = monitored(whole, ["--writer", "--ignore", "writer"])
    other = monitored(whole, ["--writer", "--ignore", "queue", "--ignore", "query"])

    assert (late[0], [each["fault"] for each in late[1]["troubles"]]) == (1, ["writer"])
    assert (usual[0], usual[1]["troubles"]) == (0, [])
    assert usual == ignored
    assert other == late


def test_a_job_that_failed_is_trouble_for_a_time(whole: WholeGateway) -> None:
    assert "Syntax error" in whole.refused("INSERT INTO t SELECT wrong")
    whole.statements.answers["DELETE FROM mt WHERE a = 1"] = TableProtected(
        "mt is a materialized table.", table="mt"
    )
    whole.statements.answers["SELECT wrong"] = QueryFailed("There is no column wrong.", sqlstate="42703")
    for refused in ("DELETE FROM mt WHERE a = 1", "SELECT wrong"):
        whole.refused(refused)

    for_ever = monitored(whole, ["--since", "0 s"])
    # The gateway's clock is that of the test, long ago.
    lately = monitored(whole)

    assert (for_ever[0], [each["name"] for each in for_ever[1]["failed_jobs"]]) == (1, ["insert-t"])
    assert (lately[0], lately[1]["failed_jobs"]) == (0, [])


def test_a_scheduler_whose_timer_has_ended_is_trouble_before_any_table_is_late(whole: WholeGateway) -> None:
    whole.sql(DAILY)
    scheduler = whole.process.scheduler
    assert isinstance(scheduler, MemoryScheduler)
    well = monitored(whole)

    # As if it had been closed behind the gateway's back.
    scheduler.close()
    whole.clock.advance(timedelta(seconds=30))
    whole.process.work.scheduler_watch.poll()
    code, ill = monitored(whole)
    lines = freshtable(whole, "status").stdout.splitlines()

    assert (well[0], well[1]["scheduler"]) == (0, "READY")
    assert (code, ill["healthy"], ill["troubles"]) == (1, False, [])
    expected = (
        "memory is UNHEALTHY since 2026-03-01 12:00:30 UTC: "
        "The memory scheduler is not open; call open() first."
    )
    assert (ill["scheduler"], lines[1:]) == (expected, [f"  scheduler {expected}"])


def test_a_gateway_that_has_ended_is_trouble(whole: WholeGateway) -> None:
    url = whole.process.server.url
    whole.stop()

    result = CliRunner().invoke(app, ["status", "--gateway", url])
    whole.start()

    assert result.exit_code == 1
    assert result.stdout.startswith(f"{url}: No gateway answers at {url}")


def test_the_doctor_finds_the_gateway_of_the_home(whole: WholeGateway, tmp_path: Path) -> None:
    (tmp_path / "gateway.json").write_text(json.dumps({"pid": 1, "url": whole.process.server.url}))

    result = CliRunner().invoke(app, ["doctor", "--home", str(tmp_path)])

    lines = [line for line in result.stdout.splitlines() if line.split()[1:2] in (["gateway"], ["clock"])]
    url = whole.process.server.url
    assert lines == [
        f"ok      gateway      {url} answers, version {__version__}, Spark is ready",
        f"ok      clock        agrees with the clock of the gateway at {url}",
    ]
