from __future__ import annotations

import socket
from dataclasses import replace
from typing import Any

import pytest

from mt_core.base.access import parse_tokens
from tests.support.gateway.shared_app import app_of
from tests.support.gateway.statements import Gateway


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://localhost:1",
        "null",
        "https://{host}",
        "{host}",
        "ftp://{host}",
        "http://{host}.evil.example",
    ],
)
def test_a_web_page_of_another_site_can_run_nothing_here(gateway: Gateway, origin: str) -> None:
    origin = origin.format(host=str(gateway.http.base_url).removeprefix("http://").rstrip("/"))
    answer = gateway.http.post(
        "/v3/sessions", content="{}", headers={"Origin": origin, "Content-Type": "text/plain"}
    )

    assert answer.status_code == 403
    assert answer.headers["Freshtable-Error"] == "FORBIDDEN"
    assert origin in answer.json()["errors"][0]
    assert len(gateway.sessions) == 0


def test_a_page_of_the_gateway_itself_is_let_in(gateway: Gateway) -> None:
    answer = gateway.http.post("/v3/sessions", headers={"Origin": str(gateway.http.base_url).rstrip("/")})

    assert answer.status_code == 200


def test_a_page_behind_a_proxy_with_tls_is_one_of_the_gateway_itself(gateway: Gateway) -> None:
    host = str(gateway.http.base_url).removeprefix("http://").rstrip("/")

    answer = gateway.http.post(
        "/v3/sessions", headers={"Origin": f"https://{host}", "X-Forwarded-Proto": "https"}
    )

    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/v3/info", "/v3/sessions"])
def test_no_answer_lets_pages_of_other_sites_read_it(gateway: Gateway, path: str) -> None:
    for answer in (
        gateway.http.get(path),
        gateway.http.get(path, headers={"Origin": "https://evil.example"}),
    ):
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("guarded", [False, True])
def test_a_request_with_two_hosts_is_a_bad_one(gateway: Gateway, switch: Any, guarded: bool) -> None:
    if guarded:
        switch.app = app_of(replace(gateway.services, tokens=parse_tokens("a")))
    host = str(gateway.http.base_url).removeprefix("http://").rstrip("/")
    heads = [
        f"Host: {first}\r\nHost: {second}"
        for first, second in ((host, "evil.example"), ("evil.example", host))
    ]

    answers = [
        sent(host, f"GET /v3/info HTTP/1.1\r\n{head}\r\nAuthorization: Bearer a\r\n\r\n") for head in heads
    ]

    assert [answer.partition(b"\r\n")[0] for answer in answers] == [b"HTTP/1.1 400 Bad Request"] * 2
    assert b"The request has 2 Host headers; send one." in answers[0]


def sent(host: str, request: str) -> bytes:
    """Return the answer to a raw request that no HTTP client would send."""
    address, _, port = host.partition(":")
    with socket.create_connection((address, int(port)), 60) as connection:
        connection.sendall(request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n").encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))
