"""What a gateway answers to a scrape is what Prometheus' own tools expect."""

from __future__ import annotations

import subprocess

import pytest

from tests.installed_tools import tool
from tests.support.gateway.whole import EVERY_10_S, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway

pytestmark = pytest.mark.processes


def test_promtool_has_no_objection_to_the_metrics_of_a_gateway(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.pass_time(seconds=20)
    text = whole.http.get("/metrics").text

    done = subprocess.run(
        [tool("promtool"), "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )

    assert "freshtable_refreshes_total{" in text
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
