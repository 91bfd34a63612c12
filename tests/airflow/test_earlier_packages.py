"""An Airflow that still has the package of an earlier release, with a gateway of the code at hand."""

from __future__ import annotations

import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dags.tests.stub_gateway import SHARDS, TOKEN
from mt_core.demo.free_ports import free_port
from tests.airflow.lake import PREFIX, Lake
from tests.airflow.rest import SOON_S
from tests.airflow.settings import AirflowSettings
from tests.airflow.stack import AirflowStack, running_airflow
from tests.releases.place import airflow_wheels

pytestmark = [pytest.mark.slow, pytest.mark.spark]


# With the lanes of the contract beside it, a second Airflow would make their ticks late.
@pytest.mark.usefixtures("breakable_airflow")
@pytest.mark.parametrize("wheel", airflow_wheels(), ids=lambda wheel: wheel.name)
def test_an_airflow_with_an_earlier_package_refreshes_and_pauses_the_tables_of_this_gateway(
    wheel: Path, tmp_path: Path, stack_kind: str
) -> None:
    if stack_kind == "compose":
        pytest.skip("an Airflow of this machine is what is tested")
    site, port = tmp_path / "site", free_port()
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    settings = AirflowSettings(
        home=tmp_path / "airflow",
        port=free_port(),
        gateway_url=f"http://127.0.0.1:{port}",
        token=TOKEN,
        prefix=PREFIX,
        # Before the packages of Airflow's environment, which has the checkout's own.
        more={"PYTHONPATH": str(site)},
    )
    lake = Lake(tmp_path / "lake", AirflowStack(settings), host="127.0.0.1", port=port, token=TOKEN)
    with ThreadPoolExecutor(1) as beside, lake:
        started = beside.submit(lake.start)
        with running_airflow(settings) as airflow:
            started.result()
            shards = [f"{PREFIX}shard_{number:02d}" for number in range(SHARDS)]
            airflow.rest.wait(lambda: all(map(airflow.rest.dag, shards)), SOON_S)
            lake.sql("CREATE TABLE lake.default.orders (amount BIGINT) USING iceberg")
            dag_id = lake.create("summed", query="SELECT sum(amount) AS n FROM lake.default.orders")
            lake.sql("INSERT INTO lake.default.orders VALUES (1), (2)")

            run_id = airflow.rest.trigger(dag_id)
            airflow.rest.wait(lambda: airflow.rest.run(dag_id, run_id)["state"] == "success", SOON_S)
            lake.sql("ALTER MATERIALIZED TABLE lake.default.summed SUSPEND")

            [run] = lake.refreshes("summed")
            assert (run["status"], lake.count("summed")) == ("SUCCEEDED", 3)
            assert "FINISHED: decision refresh" in airflow.rest.task_log(dag_id, run_id)
            assert airflow.rest.dag(dag_id)["is_paused"] is True
            # Airflow has imported what was unpacked.
            assert list((site / "freshtable_airflow").rglob("*.pyc"))
