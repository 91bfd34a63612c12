from __future__ import annotations

import pytest

from tests.support.manager_world import ManagerWorld


@pytest.fixture
def world() -> ManagerWorld:
    return ManagerWorld()
