"""deploy/grafana: the dashboard shows what the gateway exports, in any Grafana."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from mt_core.metrics.families import FAMILIES
from tests.installed_tools import tool
from tests.support.promql import families, labels_of, metrics_of, unknown_labels

FILE = Path(__file__).parents[2] / "deploy" / "grafana" / "freshtable.json"
DASHBOARD: Any = json.loads(FILE.read_text(encoding="utf-8"))
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
COLUMNS = 24
# Series of Prometheus itself have these labels too.
OF_ALERTS = {"alertname", "alertstate", "severity"}
# The dashboard shows neither the versions nor what another panel implies.
NOT_SHOWN = {
    "freshtable_build_info",
    "freshtable_gateway_start_timestamp_seconds",
    "freshtable_background_loop_period_seconds",
    "freshtable_table_shows_timestamp_seconds",
    "freshtable_table_suspended",
    "freshtable_batch_duration_seconds",
}
_LEGEND_LABEL = re.compile(r"\{\{(\w+)\}\}")
each_panel = pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])


def expressions(panel: Any) -> Iterator[str]:
    """Yield the expressions of a panel as Prometheus gets them from Grafana."""
    for target in panel["targets"]:
        yield target["expr"].replace("$__rate_interval", "1m").replace("$instance", "gateway:8083")


def test_the_dashboard_has_what_grafana_needs_and_no_id_of_an_installation() -> None:
    text = FILE.read_text(encoding="utf-8")

    assert {"title", "schemaVersion", "templating", "time", "panels"} <= set(DASHBOARD)
    assert not {"id", "uid", "__inputs", "version"} & set(DASHBOARD)
    assert set(re.findall(r'"uid": "([^"]*)"', text)) == {"${datasource}"}
    assert [each["name"] for each in DASHBOARD["templating"]["list"]] == ["datasource", "instance"]
    assert DASHBOARD["templating"]["list"][0]["type"] == "datasource"


def test_each_panel_has_a_place_of_its_own() -> None:
    places = {panel["id"]: panel["gridPos"] for panel in DASHBOARD["panels"]}

    assert len(places) == len(DASHBOARD["panels"])
    for place in places.values():
        assert 0 <= place["x"] < place["x"] + place["w"] <= COLUMNS
    assert not [pair for pair in combinations(places, 2) if _overlap(places[pair[0]], places[pair[1]])]


def _overlap(one: Any, other: Any) -> bool:
    return all(
        one[start] < other[start] + other[size] and other[start] < one[start] + one[size]
        for start, size in (("x", "w"), ("y", "h"))
    )


@each_panel
def test_a_panel_says_what_it_shows_in_which_unit_of_the_chosen_gateways(panel: Any) -> None:
    assert panel["type"] in ("stat", "timeseries", "table")
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"] == SOURCE
    assert [target["datasource"] for target in panel["targets"]] == [SOURCE] * len(panel["targets"])
    assert all('instance=~"$instance"' in target["expr"] for target in panel["targets"])
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@each_panel
def test_a_panel_uses_metrics_and_labels_that_the_gateway_exports(panel: Any) -> None:
    for target, expression in zip(panel["targets"], expressions(panel), strict=True):
        assert metrics_of(expression) <= set(families())
        assert unknown_labels(expression) == set()
        assert set(_LEGEND_LABEL.findall(target.get("legendFormat", ""))) <= labels_of(expression)
        columns = [each["options"] for each in panel.get("transformations", ())]
        renamed = {name for each in columns for name in each["renameByName"]} - {"Value"}
        assert renamed <= labels_of(expression) | (OF_ALERTS if "ALERTS" in expression else set()) | {
            "table_catalog",
            "table_schema",
            "table_name",
        }


def test_the_dashboard_shows_all_metrics_but_a_few() -> None:
    declared = families()

    shown = {
        declared[name].name for panel in PANELS for each in expressions(panel) for name in metrics_of(each)
    }

    assert {family.name for family in FAMILIES} - shown == NOT_SHOWN


@pytest.mark.processes
def test_promtool_accepts_all_expressions_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": "panel", "expr": each, "labels": {"panel": str(number)}}
        for number, each in enumerate(each for panel in PANELS for each in expressions(panel))
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}), encoding="utf-8")

    done = subprocess.run(
        [tool("promtool"), "check", "rules", file], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout
