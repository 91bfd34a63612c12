from __future__ import annotations

import pytest

from tests.support.gateway.statements import Gateway


@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost:1", "null"])
def test_a_web_page_of_another_site_can_run_nothing_here(gateway: Gateway, origin: str) -> None:
    answer = gateway.http.post("/v3/sessions", content="{}", headers={"Origin": origin, "Content-Type": "text/plain"})

    assert answer.status_code == 403
    assert answer.headers["Freshtable-Error"] == "FORBIDDEN"
    assert origin in answer.json()["errors"][0]
    assert len(gateway.sessions) == 0


def test_a_page_of_the_gateway_itself_is_let_in(gateway: Gateway) -> None:
    answer = gateway.http.post("/v3/sessions", headers={"Origin": str(gateway.http.base_url).rstrip("/")})

    assert answer.status_code == 200
