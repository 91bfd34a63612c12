"""Each code of a reason is in the page that explains refreshes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mt_core.model.run import ReasonCode

PAGE = Path(__file__).parents[2] / "docs/how-to/explain-a-refresh.md"


@pytest.mark.parametrize("code", ReasonCode)
def test_a_code_is_documented(code: ReasonCode) -> None:
    assert re.search(rf"\b{code.value}\b", PAGE.read_text())
