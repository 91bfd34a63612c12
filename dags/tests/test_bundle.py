from __future__ import annotations

import ast
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stub_gateway import TOKEN, StubGateway, definition, shard_of

from freshtable_airflow.bundle import GatewayDagBundle
from freshtable_airflow.loader import load

ANCHORS = {f"mt__shard_{number:02d}" for number in range(32)}


@pytest.fixture(autouse=True)
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH", str(tmp_path))
    monkeypatch.delenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", raising=False)
    return tmp_path


def bundle(**changes: Any) -> GatewayDagBundle:
    return GatewayDagBundle(**{"name": "materialized-tables", "refresh_interval": 30, **changes})


def dags_of(found: GatewayDagBundle) -> dict[str, Any]:
    dags: dict[str, Any] = {}
    for file in sorted(found.path.glob("*.py")):
        dags |= {name: each for name, each in runpy.run_path(str(file)).items() if name.startswith("mt__")}
    return dags


def changed_files(found: GatewayDagBundle, before: dict[str, float]) -> set[str]:
    return {file.name for file in found.path.glob("*.py") if before.get(file.name) != file.stat().st_mtime_ns}


def times(found: GatewayDagBundle) -> dict[str, float]:
    return {file.name: file.stat().st_mtime_ns for file in found.path.glob("*.py")}


def test_anchors_are_there_before_the_gateway_was_ever_reached_and_say_why() -> None:
    found = bundle(gateway="http://127.0.0.1:1")

    found.initialize()

    dags = dags_of(found)
    assert set(dags) == ANCHORS
    assert "http://127.0.0.1:1 cannot be reached" in dags["mt__shard_00"].doc_md


def test_every_table_is_a_dag_in_the_file_of_its_shard(stub: StubGateway) -> None:
    stub.definitions = [definition(f"lake.sales.t{number}") for number in range(40)]
    found = bundle(gateway=stub.url)

    found.initialize()

    assert set(dags_of(found)) == ANCHORS | {f"mt__lake.sales.t{number}" for number in range(40)}


def test_the_code_of_a_dag_shows_the_statement_of_its_table(stub: StubGateway) -> None:
    stub.definitions = [definition("lake.a", definition="CREATE MATERIALIZED TABLE lake.a\nAS SELECT 1")]
    found = bundle(gateway=stub.url)

    found.initialize()

    code = (found.path / f"mt__shard_{shard_of(stub.definitions[0]):02d}.py").read_text()
    assert "# CREATE MATERIALIZED TABLE lake.a\n# AS SELECT 1\n" in code


ENDS = ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\0", '"""', "'''", "\\\n"]


@pytest.mark.parametrize("end", ENDS, ids=repr)
def test_nothing_in_a_statement_is_code_of_the_file(stub: StubGateway, end: str) -> None:
    attack = f"SELECT 1{end}raise SystemExit('code of a user of the gateway'){end}{{state}} \\ud800é"
    stub.definitions = [definition("lake.a", definition=attack)]
    found = bundle(gateway=stub.url)

    found.initialize()

    (file,) = [each for each in found.path.glob("*.py") if "SELECT 1" in each.read_text()]
    statements = ast.parse(file.read_text()).body
    assert [type(each).__name__ for each in statements] == ["Expr", "ImportFrom", "ImportFrom", "Expr"]
    assert "mt__lake.a" in dags_of(found)


def test_a_change_touches_the_file_of_its_shard_only(stub: StubGateway) -> None:
    stub.definitions = [definition("lake.a"), definition("lake.b")]
    found = bundle(gateway=stub.url)
    found.initialize()
    before = times(found)
    stub.definitions[0] = definition("lake.a", every=(90, "MINUTE"), cron="")

    found.refresh()

    assert changed_files(found, before) == {f"mt__shard_{shard_of(stub.definitions[0]):02d}.py"}
    assert dags_of(found)["mt__lake.a"].timetable.summary.startswith("every 90 MINUTE (Europe/Berlin)")


def test_what_has_not_changed_is_not_sent_again(stub: StubGateway) -> None:
    stub.definitions = [definition("lake.a")]
    found = bundle(gateway=stub.url)
    found.initialize()
    before, calls = times(found), len(stub.calls)

    found.refresh()

    assert changed_files(found, before) == set()
    assert [
        bool(call.headers.get("If-None-Match", call.headers.get("if-none-match")))
        for call in stub.calls[calls:]
    ] == [True] * 32


def test_a_changed_file_is_touched_once_more_as_airflow_may_have_missed_it(
    stub: StubGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.definitions = [definition("lake.a")]
    found = bundle(gateway=stub.url)
    found.initialize()
    before = times(found)
    monkeypatch.setattr("freshtable_airflow.bundle.SETTLED_S", 0.0)

    found.refresh()
    touched, between = changed_files(found, before), times(found)
    found.refresh()

    assert touched == {f"mt__shard_{number:02d}.py" for number in range(32)}
    assert changed_files(found, between) == set()


def test_a_changed_file_that_was_parsed_since_is_left_alone(
    stub: StubGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.definitions = [definition("lake.a")]
    found = bundle(gateway=stub.url)
    found.initialize()
    dags_of(found)
    before = times(found)
    monkeypatch.setattr("freshtable_airflow.bundle.SETTLED_S", 0.0)

    found.refresh()

    assert changed_files(found, before) == set()


def test_a_dropped_table_loses_its_dag(stub: StubGateway) -> None:
    stub.definitions = [definition("lake.a")]
    found = bundle(gateway=stub.url)
    found.initialize()
    stub.definitions = []

    found.refresh()

    assert set(dags_of(found)) == ANCHORS


def test_while_the_gateway_is_away_the_dags_stay_and_the_first_anchor_says_so(stub: StubGateway) -> None:
    stub.definitions = [definition("lake.a")]
    found = bundle(gateway=stub.url)
    found.initialize()
    stub.down = True

    found.refresh()

    dags = dags_of(found)
    assert set(dags) == ANCHORS | {"mt__lake.a"}
    assert "The gateway is starting." in dags["mt__shard_00"].doc_md


def test_a_gateway_with_another_scheduler_takes_the_dags_out_of_airflow_and_gives_them_back_with_airflow(
    stub: StubGateway,
) -> None:
    stub.definitions = [definition("lake.a")]
    found = bundle(gateway=stub.url)
    found.initialize()
    stub.scheduler = "memory"
    found.refresh()
    without = dags_of(found)
    stub.scheduler = "airflow"

    found.refresh()

    assert set(without) == ANCHORS
    assert "404 SCHEDULER_NOT_USED" in without["mt__shard_00"].doc_md
    assert set(dags_of(found)) == ANCHORS | {"mt__lake.a"}


def test_a_task_of_a_gateway_with_another_scheduler_finds_its_dag_still(
    stub: StubGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.definitions = [definition("lake.a")]
    found = bundle(gateway=stub.url)
    found.initialize()
    stub.scheduler = "memory"
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "mt__lake.a")

    bundle(gateway=stub.url).initialize()

    assert set(dags_of(found)) == {"mt__lake.a"}


def test_when_the_gateway_is_back_the_anchor_is_quiet_again(stub: StubGateway) -> None:
    found = bundle(gateway=stub.url)
    stub.down = True
    found.initialize()
    stub.down = False

    found.refresh()

    assert dags_of(found)["mt__shard_00"].doc_md is None


def test_a_wrong_token_is_told_by_the_anchor(stub: StubGateway) -> None:
    found = bundle(gateway=stub.url, token="wrong")

    found.initialize()

    assert "401 UNAUTHORIZED" in dags_of(found)["mt__shard_00"].doc_md


def test_url_and_token_may_come_from_the_connection(stub: StubGateway) -> None:
    stub.definitions = [definition("lake.a")]
    found = bundle()

    found.initialize()

    assert "mt__lake.a" in dags_of(found)


def test_they_may_come_from_the_configuration_without_a_connection(
    stub: StubGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.definitions = [definition("lake.a")]
    found = bundle(gateway=stub.url + "/", token=TOKEN, freshtable_conn_id="freshtable_none")
    monkeypatch.delenv("AIRFLOW_CONN_FRESHTABLE_DEFAULT")

    found.initialize()

    assert "mt__lake.a" in dags_of(found)


def test_a_task_asks_for_its_own_shard_only(stub: StubGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    stub.definitions = [definition("lake.a"), definition("lake.b")]
    bundle(gateway=stub.url).initialize()
    calls = len(stub.calls)
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "mt__lake.b")

    bundle(gateway=stub.url).initialize()

    assert [call.path.rpartition("/")[2] for call in stub.calls[calls:]] == [
        str(shard_of(stub.definitions[1]))
    ]


def test_a_task_on_a_machine_that_has_not_seen_its_table_yet_asks_for_all(
    stub: StubGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.definitions = [definition("lake.a")]
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "mt__lake.a")
    found = bundle(gateway=stub.url)

    found.initialize()

    assert set(dags_of(found)) == {"mt__lake.a"}


def test_the_anchors_have_the_prefix_of_the_configuration(stub: StubGateway) -> None:
    found = bundle(gateway=stub.url, dag_id_prefix="mt__team_")

    found.initialize()

    assert set(dags_of(found)) == {f"mt__team_shard_{number:02d}" for number in range(32)}


def test_a_file_in_the_dags_folder_does_where_bundles_cannot_be_configured(stub: StubGateway) -> None:
    stub.definitions = [definition("lake.a")]
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}

    load(first, gateway=stub.url)
    stub.down = True
    load(second, gateway=stub.url)

    assert set(first) == set(second) == ANCHORS | {"mt__lake.a"}


def test_an_answer_of_a_newer_gateway_is_refused_with_the_way_out(stub: StubGateway) -> None:
    found = bundle(gateway=stub.url)
    stub.version = 2

    found.initialize()

    assert "upgrade the package in Airflow" in dags_of(found)["mt__shard_00"].doc_md
