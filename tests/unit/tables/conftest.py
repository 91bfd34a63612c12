from __future__ import annotations

import pytest

from mt_core.testing.manager_world import ManagerWorld


@pytest.fixture
def world() -> ManagerWorld:
    return ManagerWorld()
