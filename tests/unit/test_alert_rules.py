"""deploy/prometheus: the alert rules, their tests for promtool, and the configuration of Prometheus."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.installed_tools import tool
from tests.support.promql import families, labels_of, metrics_of, unknown_labels

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
RULES = PROMETHEUS / "freshtable.rules.yml"
TESTS = sorted(PROMETHEUS.glob("tests/*.yml"))
HOW_TO = ROOT / "docs" / "how-to" / "watch-with-prometheus.md"
_LABEL = re.compile(r"\$labels\.(\w+)")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


ALERTS = [alert for group in read(RULES)["groups"] for alert in group["rules"]]
each_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run([tool("promtool"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@each_alert
def test_an_alert_uses_metrics_and_labels_that_the_gateway_exports(alert: Any) -> None:
    expression = alert["expr"]

    assert metrics_of(expression) <= set(families())
    assert unknown_labels(expression) == set()
    assert set(_LABEL.findall(str(alert["annotations"]))) <= labels_of(expression)


@each_alert
def test_an_alert_has_a_severity_and_says_what_happened_and_what_to_do(alert: Any) -> None:
    assert set(alert["labels"]) == {"severity"}
    assert alert["labels"]["severity"] in ("critical", "warning")
    assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
    of_tables = "table_name" in labels_of(alert["expr"])
    assert ("$labels.table_name" in alert["annotations"]["summary"]) is of_tables


@each_alert
def test_the_runbook_has_a_section_for_an_alert(alert: Any) -> None:
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")

    section = HOW_TO.read_text(encoding="utf-8").partition(f"\n### {alert['alert']}\n")[2].partition("\n#")[0]

    assert ROOT / page == HOW_TO
    assert anchor == alert["alert"].lower()
    assert re.findall(r"^\*\*([A-Z][a-z ]+)\.\*\*", section, re.MULTILINE) == ["Meaning", "Look at", "Do"]


def test_the_runbook_has_no_section_for_an_alert_that_is_gone() -> None:
    sections = re.findall(r"^### (Freshtable\w+)$", HOW_TO.read_text(encoding="utf-8"), re.MULTILINE)

    assert sections == [alert["alert"] for alert in ALERTS]


def test_the_example_for_alertmanager_inhibits_alerts_and_compares_labels_that_exist() -> None:
    [example] = re.findall(r"^```yaml\n(# alertmanager.*?)^```", HOW_TO.read_text("utf-8"), re.M | re.S)

    rules = yaml.safe_load(example)["inhibit_rules"]

    names = set(re.findall(r"\bFreshtable\w+", str(rules)))
    labels = {label for rule in rules for label in rule["equal"]}
    assert names < {alert["alert"] for alert in ALERTS}
    assert labels <= {label for alert in ALERTS for label in labels_of(alert["expr"])}


def test_promtool_tests_of_each_alert_when_it_fires_and_when_not() -> None:
    fires = defaultdict[str, set[bool]](set)
    for test in (test for path in TESTS for test in read(path)["tests"]):
        for case in test["alert_rule_test"]:
            fires[case["alertname"]].add(bool(case["exp_alerts"]))

    assert fires == {alert["alert"]: {True, False} for alert in ALERTS}


@pytest.mark.processes
def test_promtool_accepts_the_rules_and_their_tests_pass() -> None:
    promtool("check", "rules", RULES)
    promtool("test", "rules", *TESTS)


@pytest.mark.processes
def test_promtool_accepts_the_configuration_of_prometheus(tmp_path: Path) -> None:
    for path in (RULES, PROMETHEUS / "prometheus.yml"):
        (tmp_path / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "freshtable-token").write_text("secret", encoding="utf-8")

    promtool("check", "config", tmp_path / "prometheus.yml")
