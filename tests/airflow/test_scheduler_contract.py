"""The shipped contract on the Airflow scheduler with a real Airflow, in real time."""

from __future__ import annotations

import pytest

from tests.airflow.lanes import LANES, Lanes


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.parametrize("lane", range(LANES))
def test_the_airflow_scheduler_fulfils_the_contract(contract: Lanes, lane: int) -> None:
    code, said = contract.result(lane)

    assert code == 0, said
