"""Nouns and verbs beside numbers."""

from __future__ import annotations

import pytest

from mt_core.base.plural import plural


@pytest.mark.parametrize(("number", "text"), [(0, "rows"), (1, "row"), (2, "rows")])
def test_a_noun_has_an_s_beside_any_number_but_one(number: int, text: str) -> None:
    assert plural(number, "row") == text


@pytest.mark.parametrize(("number", "text"), [(0, "refreshes are"), (1, "refresh is"), (2, "refreshes are")])
def test_another_plural_is_taken_as_it_is_given(number: int, text: str) -> None:
    assert plural(number, "refresh is", "refreshes are") == text
