"""The link from a task in Airflow's UI to its run on the gateway's page."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

RUN_URL = "freshtable_run_url"


def run_url(details_url: str, gateway_url: str, run: str) -> str:
    """Return the URL of a run: the one of its table with the run, or its own if the former is unknown ("").

    The gateway says the URL of a table: its page, or in earlier releases the definition as JSON.
    """
    if not details_url:
        return f"{gateway_url}/ui/runs/{quote(run, safe='')}"
    return f"{details_url}{'&' if '?' in details_url else '?'}run={quote(run, safe='')}"


class GatewayRunLink(BaseOperatorLink):
    """The link to the run, which is available once the gateway has accepted the refresh."""

    name = "Refresh run"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return XCom.get_value(key=RUN_URL, ti_key=ti_key) or ""
