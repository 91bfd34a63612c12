"""The committed OpenAPI document of each version is the one the gateway serves, and the gateway conforms to
it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mt_core.errors import MtError
from tests.depth import DEPTH, rounds
from tests.support.gateway.statements import Gateway

if TYPE_CHECKING:
    from schemathesis import Case

DOCUMENTS = Path(__file__).parents[2] / "docs" / "openapi"
VERSIONS = ["v1", "v2", "v3", "v4"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_committed_document_is_what_the_gateway_serves(gateway: Gateway, version: str) -> None:
    committed = (DOCUMENTS / f"{version}.json").read_text(encoding="utf-8")

    served = gateway.http.get(f"/{version}/openapi.json").json()

    assert committed == json.dumps(served, indent=2, ensure_ascii=False) + "\n", "run `make docs`"


def test_the_document_without_a_prefix_has_the_endpoints_of_v4(gateway: Gateway) -> None:
    default, fourth = (gateway.http.get(f"{prefix}/openapi.json").json()["paths"] for prefix in ("", "/v4"))

    assert [f"/v4{path}" for path in default] == list(fourth)


@pytest.mark.slow
@pytest.mark.timeout(300 * DEPTH)
@pytest.mark.parametrize("mode", ["positive", "negative"], ids=["fitting", "unfit"])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_gateway_answers_any_request_as_its_document_says(
    gateway: Gateway, version: str, mode: str
) -> None:
    # To import it takes every process of the fast tests as long as a hundred of them.
    import schemathesis
    from schemathesis import GenerationMode
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [status_code_conformance, content_type_conformance, response_schema_conformance]
    document = gateway.http.get(f"/{version}/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    base_url = str(gateway.http.base_url)
    opened = [gateway.open().rpartition("/")[2]]

    def live_session() -> str:
        try:
            gateway.sessions.get(opened[0])
        except MtError:
            gateway.sessions.close_all()
            opened[0] = gateway.open().rpartition("/")[2]
        return opened[0]

    @given(case=schema.as_strategy(generation_mode=GenerationMode(mode)), live=st.booleans())
    @settings(
        max_examples=rounds(80, 300), deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    def answers_as_described(case: Case, live: bool) -> None:
        if live and "session_handle" in (case.path_parameters or {}):
            case.path_parameters["session_handle"] = live_session()
        response = case.call(base_url=base_url)
        case.validate_response(response, checks=checks)
        assert "INTERNAL" not in response.headers.get("freshtable-error", [])

    answers_as_described()
