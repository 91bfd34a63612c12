"""The link from a task in Airflow's UI to its run at the gateway."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

RUN_URL = "freshtable_run_url"


class GatewayRunLink(BaseOperatorLink):
    """The link to the run, which is available once the gateway has accepted the refresh."""

    name = "Refresh run"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return XCom.get_value(key=RUN_URL, ti_key=ti_key) or ""
