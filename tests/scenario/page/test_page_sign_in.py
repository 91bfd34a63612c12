"""Visitors sign in with a token, and what they may do follows from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import httpx
import pytest

from mt_core.base.access import parse_tokens
from mt_core.gateway.page.visitor import COOKIE
from tests.support.gateway.shared_app import app_of
from tests.support.gateway.statements import Gateway

TOKENS = parse_tokens("ann:sql:geheim,bob:read:lesen,air:refresh:nur")
Visit = Callable[..., httpx.Client]


@pytest.fixture
def visit(gateway: Gateway, switch: Any) -> Iterator[Visit]:
    """Open a browser's connection to the gateway with these tokens, signed in with one if it is given."""
    with ExitStack() as stack:

        def open_browser(token: str = "", tokens=TOKENS) -> httpx.Client:
            switch.app = app_of(replace(gateway.services, tokens=tokens))
            browser = stack.enter_context(httpx.Client(base_url=gateway.http.base_url))
            if token:
                assert sign_in(browser, token).status_code == 303
            return browser

        yield open_browser


def sign_in(browser: httpx.Client, token: str, to: str = "", **options: Any) -> httpx.Response:
    return browser.post("/ui/sign-in", data={"token": token, "to": to}, **options)


def cookie_of(browser: httpx.Client) -> str:
    """Return the name of the cookie of the gateway at this port."""
    return f"{COOKIE}-{browser.base_url.port}"


def key_of(page: str) -> str:
    [key] = set(re.findall(r'name="csrf" value="(\w+)"', page))
    return key


# ---------------------------------------------------------------------------------------------- signing in


def test_whoever_has_not_signed_in_is_led_to_the_form_and_back(visit: Visit) -> None:
    browser = visit()

    first = browser.get("/ui/runs/r1?x=%26y")
    form = browser.get(first.headers["location"])
    back = sign_in(browser, "geheim", "/ui/runs/r1?x=%26y")

    assert (first.status_code, first.headers["location"]) == (
        303,
        "/ui/sign-in?to=%2Fui%2Fruns%2Fr1%3Fx%3D%2526y",
    )
    assert 'value="/ui/runs/r1?x=%26y"' in form.text
    assert (back.status_code, back.headers["location"]) == (303, "/ui/runs/r1?x=%26y")


@pytest.mark.parametrize(
    "to",
    [
        "https://evil.example/ui/",
        "//evil.example/ui/",
        "/ui//evil.example",
        "/v3/sessions",
        "/ui/sign-out",
        "/ui\\@evil.example",
        "/ui/../evil",
        "/ui/\r\nSet-Cookie: a=b",
        "",
    ],
)
def test_signing_in_leads_to_no_address_but_pages_of_the_gateway(visit: Visit, to: str) -> None:
    location = sign_in(visit(), "geheim", to).headers["location"]

    assert location.startswith("/ui/")
    assert not location.startswith("/ui//")
    assert "\n" not in location
    assert "evil" not in location or location.startswith("/ui/%0D%0A")


@pytest.mark.parametrize(
    ("token", "words"), [("falsch", "not a token"), ("", "not a token"), ("nur", "refresh")]
)
def test_other_tokens_are_refused_in_words_and_give_no_cookie(visit: Visit, token: str, words: str) -> None:
    answer = sign_in(visit(), token)

    assert answer.status_code == 401
    assert words in answer.text
    assert "set-cookie" not in answer.headers


def test_five_wrong_tokens_close_the_form_for_a_minute(visit: Visit) -> None:
    browser = visit(tokens=parse_tokens("eve:sql:another"))

    statuses = [sign_in(browser, "falsch").status_code for _ in range(6)]

    assert statuses == [401] * 5 + [429]
    assert sign_in(browser, "another").status_code == 429


def test_the_cookie_is_for_the_page_alone_and_not_for_scripts(visit: Visit) -> None:
    browser = visit()
    cookie = sign_in(browser, "geheim").headers["set-cookie"]

    assert cookie.startswith(f"{cookie_of(browser)}=")
    assert {"HttpOnly", "Path=/ui", "SameSite=strict"} <= set(cookie.split("; "))
    assert "geheim" not in cookie


@pytest.mark.parametrize(
    "path", ["/v4/sessions", "/v3/sessions", "/freshtable/v1/tables", "/metrics", "/v3/api_versions"]
)
def test_the_cookie_opens_nothing_but_the_page(visit: Visit, path: str) -> None:
    browser = visit("geheim")
    name = cookie_of(browser)
    cookie = {"Cookie": f"{name}={browser.cookies[name]}"}

    assert browser.get("/ui/").status_code == 200
    assert browser.get(path, headers=cookie).status_code in (401, 404)
    assert browser.post(path, content="{}", headers=cookie).status_code in (401, 404)


def test_the_header_of_programs_does_not_open_the_page(visit: Visit) -> None:
    assert visit().get("/ui/", headers={"Authorization": "Bearer geheim"}).status_code == 303


def test_a_link_of_another_site_finds_the_visitor_signed_in(visit: Visit) -> None:
    # A strict cookie is not sent with the link itself, but with what the page then loads.
    answer = visit().get("/ui/tables/t1", headers={"Sec-Fetch-Site": "cross-site"})

    assert answer.status_code == 200
    assert '<meta http-equiv="refresh" content="0">' in answer.text


def test_signing_out_ends_the_visit(visit: Visit) -> None:
    browser = visit("geheim")

    answer = browser.post("/ui/sign-out")

    assert answer.status_code == 303
    assert browser.get("/ui/").status_code == 303


def test_without_tokens_there_is_no_sign_in(visit: Visit) -> None:
    browser = visit(tokens=())

    assert browser.get("/ui/").status_code == 200
    assert browser.get("/ui/sign-in").headers["location"] == "/ui/"


# ------------------------------------------------------------------------------------ what a page may load


@pytest.mark.parametrize("path", ["/ui/", "/ui/sign-in", "/ui/nothing", "/ui/?unknown=1"])
@pytest.mark.parametrize("token", ["", "geheim"])
def test_no_answer_may_be_framed_or_load_what_is_not_the_gateways(
    visit: Visit, path: str, token: str
) -> None:
    answer = visit(token).get(path)

    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in answer.headers


def test_scripts_and_styles_are_kept_for_ever_under_an_address_of_their_content(visit: Visit) -> None:
    browser = visit("geheim")
    page = browser.get("/ui/").text

    addresses = re.findall(r'(?:href|src)="(/ui/static/[^"]+)"', page)
    answers = [browser.get(address) for address in addresses]

    assert {answer.status_code for answer in answers} == {200}
    assert all("immutable" in answer.headers["cache-control"] for answer in answers)
    assert browser.get("/ui/static/000000000000/page.css").headers["cache-control"] == "no-store"
    assert browser.get("/ui/static/000000000000/none.css").status_code == 404
    assert browser.get("/ui/static/x/..%2Ftemplates%2Fbase.html").status_code == 404


def test_the_root_leads_to_the_page_and_has_an_icon(visit: Visit) -> None:
    browser = visit()

    assert browser.get("/").headers["location"] == "/ui/"
    assert browser.get("/favicon.ico").headers["content-type"] == "image/svg+xml"


def test_a_gateway_without_the_page_has_none(gateway: Gateway) -> None:
    from mt_core.gateway.application import build_app

    transport = httpx.ASGITransport(app=build_app(replace(gateway.services, page_base=None)))

    async def statuses() -> list[int]:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return [(await client.get(path)).status_code for path in ("/", "/ui/", "/favicon.ico")]

    import asyncio

    assert asyncio.run(statuses()) == [404, 404, 404]


# ---------------------------------------------------------------------------------------- errors and parts


def test_what_does_not_exist_or_is_not_understood_is_said_on_a_page(visit: Visit) -> None:
    browser = visit("geheim")

    missing, unknown = browser.get("/ui/nothing"), browser.get("/ui/?unknown=1")

    assert (missing.status_code, unknown.status_code) == (404, 400)
    assert "There is no page /ui/nothing." in missing.text
    assert "unknown is not a parameter of" in unknown.text


def test_a_fault_is_said_on_a_page(visit: Visit, gateway: Gateway, switch: Any) -> None:
    def fail() -> str:
        raise ZeroDivisionError("lost")

    browser = visit(tokens=())
    switch.app = app_of(replace(gateway.services, engine_trouble=fail))

    answer = browser.get("/ui/sign-in", headers={"Sec-Fetch-Site": "none"})
    page = browser.get("/ui/")

    assert answer.status_code == 303
    assert page.status_code == 500
    assert "ZeroDivisionError" in page.text
    assert "lost" not in page.text


def test_a_part_that_has_not_changed_is_not_sent_again(visit: Visit) -> None:
    browser = visit("geheim")
    part = {"HX-Request": "true", "HX-Target": "gateway-status"}

    first = browser.get("/ui/", headers=part)
    [since] = re.findall(r'data-version="([^"]+)"', first.text)
    second = browser.get("/ui/", params={"since": since}, headers=part)

    assert first.status_code == 200
    assert first.text.lstrip().startswith('<p id="gateway-status"')
    assert (second.status_code, second.text) == (204, "")


def test_a_part_of_a_visitor_who_is_no_longer_signed_in_is_refused(visit: Visit) -> None:
    answer = visit().get("/ui/", headers={"HX-Request": "true", "HX-Target": "gateway-status"})

    assert answer.status_code == 401


# ------------------------------------------------------------------------------------------------- forms


@pytest.mark.parametrize("tokens", [TOKENS, ()])
def test_a_form_without_the_key_of_its_visitor_changes_nothing(visit: Visit, tokens) -> None:
    browser = visit("geheim" if tokens else "", tokens=tokens)
    browser.get("/ui/")

    for form in ({}, {"csrf": "0" * 64}, {"csrf": ""}):
        answer = browser.post("/ui/tables/t1/suspend", data=form)
        assert answer.status_code == 403
        assert "Nothing was changed" in answer.text


def test_a_form_of_another_site_is_refused(visit: Visit) -> None:
    answer = visit("geheim").post("/ui/sign-out", headers={"Origin": "https://evil.example"})

    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b'{"token": "geheim"}', "application/json"), (b"\xff\xfe=1", "application/x-www-form-urlencoded")],
)
def test_a_body_that_is_no_form_is_refused(visit: Visit, content: bytes, kind: str) -> None:
    answer = visit().post("/ui/sign-in", content=content, headers={"Content-Type": kind})

    assert answer.status_code == 400


def test_a_form_is_refused_before_it_fills_the_memory(visit: Visit) -> None:
    # The type is checked after the whole body has been read.
    answers = [
        visit().post(
            "/ui/sign-in", content=b"token=" + b"a" * 100_000, headers={"Content-Type": "text/plain"}
        ),
        visit("geheim").post("/ui/sql", content=b"x" * 4_000_001, headers={"Content-Type": "text/plain"}),
    ]

    assert [answer.status_code for answer in answers] == [400, 400]
    for answer, most in zip(answers, (65536, 4000000), strict=True):
        assert f"longer than {most} bytes" in answer.text


def test_a_form_of_many_fields_is_refused(visit: Visit) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}

    answer = visit().post("/ui/sign-in", content=b"a=&" * 20_000 + b"a=", headers=form)

    assert answer.status_code == 400
    assert "too many fields" in answer.text


def test_a_long_form_is_decoded_completely(visit: Visit) -> None:
    browser = visit("geheim")
    key = key_of(browser.get("/ui/sql").text)

    answer = browser.post("/ui/sql", data={"csrf": key, "statement": "--" + "é " * 100_000})

    assert answer.status_code == 303


# ---------------------------------------------------------------------------------- what nobody is told


def test_nobody_learns_how_the_gateway_fares_without_signing_in(visit: Visit) -> None:
    part = {"HX-Request": "true", "HX-Target": "gateway-status"}

    answer = visit().get("/ui/sign-in", headers=part)

    assert answer.status_code == 401
    assert "running" not in answer.text


# ----------------------------------------------------------------- visitors of a gateway without tokens


def test_files_that_anybody_may_keep_identify_no_visitor(visit: Visit) -> None:
    [address, *_] = re.findall(r'"(/ui/static/[^"]+)"', visit(tokens=()).get("/ui/").text)

    answer = visit(tokens=()).get(address)

    assert answer.headers["cache-control"].startswith("public")
    assert "set-cookie" not in answer.headers


def test_a_link_of_another_site_makes_no_new_visitor_of_one_who_is_known(visit: Visit) -> None:
    browser = visit(tokens=())

    # A strict cookie is not sent with the link itself, but with what the page then loads.
    led = browser.get("/ui/sql", headers={"Sec-Fetch-Site": "cross-site"})
    loaded = browser.get("/ui/sql", headers={"Sec-Fetch-Site": "same-origin"})

    assert '<meta http-equiv="refresh" content="0">' in led.text
    assert "set-cookie" not in led.headers
    assert "set-cookie" in loaded.headers


# --------------------------------------------------------------------------- several gateways of a host


@pytest.mark.parametrize("token", ["geheim", ""])
def test_gateways_at_two_ports_of_a_host_have_visitors_of_their_own(visit: Visit, token: str) -> None:
    browser = visit(tokens=TOKENS if token else ())
    one, other = ({"Host": f"127.0.0.1:{port}"} for port in (8083, 8084))
    sign_in(browser, token, headers=one)
    key = key_of(browser.get("/ui/sql", headers=one).text)

    sign_in(browser, token, headers=other)
    browser.get("/ui/sql", headers=other)

    assert key_of(browser.get("/ui/sql", headers=one).text) == key
    assert {f"{COOKIE}-8083", f"{COOKIE}-8084"} == {*browser.cookies}


def test_all_gateways_behind_a_proxy_have_the_same_visitors(
    gateway: Gateway, visit: Visit, switch: Any
) -> None:
    browser = visit()
    switch.app = app_of(replace(gateway.services, tokens=TOKENS, page_url="https://data.example.com/ui"))

    cookie = sign_in(browser, "geheim").headers["set-cookie"]

    assert cookie.startswith(f"{COOKIE}=")
