"""Who reads the page: cookies that cannot be forged, and forms that no other site can send."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt_core.base.access import Role, parse_tokens
from mt_core.gateway.page.visitor import LASTS, VisitorCookies

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TOKENS = parse_tokens("ann:sql:geheim,bob@x.org:read:lesen,air:refresh:nur")


@pytest.fixture
def cookies() -> VisitorCookies:
    return VisitorCookies.of(TOKENS)


@pytest.mark.parametrize("token", TOKENS[:2])
def test_a_cookie_leads_back_to_the_name_and_role_of_its_token(cookies, token) -> None:
    cookie, signed_in = cookies.sign_in(token, NOW)

    visitor = cookies.visitor(cookie, NOW + timedelta(days=6))

    assert visitor == signed_in
    assert visitor is not None
    assert (visitor.name, visitor.role) == (token.name, token.role)
    assert visitor.may_act is (token.role is Role.SQL)
    assert token.secret.reveal() not in cookie


def test_a_cookie_ends_after_seven_days(cookies) -> None:
    cookie, _ = cookies.sign_in(TOKENS[0], NOW)

    assert cookies.visitor(cookie, NOW + LASTS) is None


def test_a_cookie_ends_when_its_token_is_changed_or_removed(cookies) -> None:
    cookie, _ = cookies.sign_in(TOKENS[0], NOW)

    assert VisitorCookies.of(parse_tokens("ann:sql:neu")).visitor(cookie, NOW) is None
    assert VisitorCookies.of(parse_tokens("eve:sql:geheim")).visitor(cookie, NOW) is None
    assert VisitorCookies.of(()).visitor(cookie, NOW) is None


def test_a_cookie_follows_its_token_to_another_role(cookies) -> None:
    cookie, _ = cookies.sign_in(TOKENS[0], NOW)

    visitor = VisitorCookies.of(parse_tokens("ann:read:geheim")).visitor(cookie, NOW)

    assert visitor is not None
    assert not visitor.may_act
    assert VisitorCookies.of(parse_tokens("ann:refresh:geheim")).visitor(cookie, NOW) is None


def test_every_gateway_with_the_same_tokens_accepts_a_cookie(cookies) -> None:
    cookie, visitor = cookies.sign_in(TOKENS[0], NOW)

    assert VisitorCookies.of(TOKENS).visitor(cookie, NOW) == visitor


def test_without_tokens_a_cookie_is_of_this_process_alone() -> None:
    cookies = VisitorCookies.of(())
    cookie, visitor = cookies.sign_in(None, NOW)

    assert cookies.visitor(cookie, NOW) == visitor
    assert (visitor.name, visitor.role) == ("", Role.ADMIN)
    assert VisitorCookies.of(()).visitor(cookie, NOW) is None


def test_two_sign_ins_have_different_form_keys(cookies) -> None:
    (_, first), (_, second) = cookies.sign_in(TOKENS[0], NOW), cookies.sign_in(TOKENS[0], NOW)

    assert first.csrf != second.csrf
    assert first.has_key(first.csrf)
    assert not first.has_key(second.csrf)
    assert not first.has_key("")


@given(text=st.text(max_size=200))
def test_any_other_text_is_no_cookie(text: str) -> None:
    assert VisitorCookies.of(TOKENS).visitor(text, NOW) is None


@given(place=st.integers(0, 300), letter=st.characters(codec="ascii"))
def test_a_changed_cookie_is_no_cookie(place: int, letter: str) -> None:
    cookies = VisitorCookies.of(TOKENS)
    cookie, _ = cookies.sign_in(TOKENS[1], NOW)
    at = place % len(cookie)
    changed = cookie[:at] + letter + cookie[at + 1 :]

    assert changed == cookie or cookies.visitor(changed, NOW) is None
