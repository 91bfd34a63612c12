from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection
from stub_gateway import TOKEN, StubGateway

from freshtable_airflow.address import GatewayAddress
from freshtable_airflow.errors import GatewayRefused
from freshtable_airflow.hook import FreshtableHook


def address(**changes: Any) -> GatewayAddress:
    return GatewayAddress.of_connection(
        Connection(conn_id="freshtable_default", conn_type="freshtable", **changes)
    )


@pytest.mark.parametrize(
    ("changes", "url"),
    [
        ({"host": "http://gateway:8083"}, "http://gateway:8083"),
        ({"host": "https://gateway.example.com/"}, "https://gateway.example.com"),
        ({"host": "https://example.com/freshtable"}, "https://example.com/freshtable"),
        ({"host": "https://gateway.example.com", "port": 8443}, "https://gateway.example.com:8443"),
        ({"host": "gateway", "port": 9000}, "http://gateway:9000"),
        ({"host": "gateway:9000"}, "http://gateway:9000"),
        ({"host": "gateway"}, "http://gateway:8083"),
        ({"host": "gateway", "port": 443, "schema": "https"}, "https://gateway:443"),
    ],
)
def test_what_people_write_as_a_host_is_understood(changes: dict[str, Any], url: str) -> None:
    assert address(**changes).url == url


def test_a_connection_without_a_host_says_what_to_do() -> None:
    with pytest.raises(GatewayRefused, match="freshtable_default has no host: set it to the gateway's URL"):
        address(password="secret")


def test_the_token_is_sent_and_never_shown() -> None:
    found = address(host="http://gateway:8083", password="secret")

    assert found.options()["headers"] == {"Authorization": "Bearer secret", "Freshtable-Errors": "json"}
    assert "secret" not in repr(found)


def test_tls_is_verified_unless_the_connection_says_otherwise() -> None:
    assert address(host="https://gateway").options()["verify"] is True
    assert (
        address(host="https://gateway", extra=json.dumps({"verify_tls": False})).options()["verify"] is False
    )


def test_a_ca_file_that_is_not_there_is_named() -> None:
    found = address(host="https://gateway", extra=json.dumps({"ca_file": "/nowhere/ca.pem"}))

    with pytest.raises(GatewayRefused, match=r"/nowhere/ca\.pem"):
        found.options()


def test_the_test_button_says_whether_the_gateway_takes_the_token(
    stub: StubGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = FreshtableHook().test_connection()
    monkeypatch.setenv(
        "AIRFLOW_CONN_FRESHTABLE_DEFAULT", json.dumps({"conn_type": "freshtable", "host": stub.url})
    )
    bad = FreshtableHook().test_connection()

    assert good == (True, f"The gateway at {stub.url} answers and accepts the token.")
    assert not bad[0]
    assert "401 UNAUTHORIZED: the password of the Airflow connection (freshtable_default" in bad[1]
    assert "must be one of the gateway's tokens" in bad[1]
    assert stub.sessions == set()
    assert TOKEN not in str(bad)
