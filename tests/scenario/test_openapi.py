"""The committed OpenAPI document of each version is the one the gateway serves, and the gateway conforms to
it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mt_core.errors import MtError
from tests.depth import DEPTH, rounds
from tests.support.gateway.statements import Gateway
from tests.support.gateway.whole import EVERY_10_S, WholeGateway
from tests.support.gateway.whole import whole_gateway as whole_gateway
from tests.support.schemas import without_others

if TYPE_CHECKING:
    from schemathesis import Case

DOCUMENTS = Path(__file__).parents[2] / "docs" / "openapi"
APIS = ["v1", "v2", "v3", "v4", "freshtable/v1"]


@pytest.mark.parametrize("api", APIS)
def test_the_committed_document_is_what_the_gateway_serves(gateway: Gateway, api: str) -> None:
    committed = (DOCUMENTS / f"{api.replace('/', '-')}.json").read_text(encoding="utf-8")

    served = gateway.http.get(f"/{api}/openapi.json").json()

    assert committed == json.dumps(served, indent=2, ensure_ascii=False) + "\n", "run `make docs`"


def test_the_document_without_a_prefix_has_the_endpoints_of_v4(gateway: Gateway) -> None:
    default, fourth = (gateway.http.get(f"{prefix}/openapi.json").json()["paths"] for prefix in ("", "/v4"))

    assert [f"/v4{path}" for path in default] == list(fourth)


@pytest.mark.slow
@pytest.mark.timeout(300 * DEPTH)
@pytest.mark.parametrize("mode", ["positive", "negative"], ids=["fitting", "unfit"])
@pytest.mark.parametrize("api", APIS)
def test_the_gateway_answers_any_request_as_its_document_says(gateway: Gateway, api: str, mode: str) -> None:
    # To import it takes every process of the fast tests as long as a hundred of them.
    import schemathesis
    from schemathesis import GenerationMode
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [status_code_conformance, content_type_conformance, response_schema_conformance]
    document = gateway.http.get(f"/{api}/openapi.json").json()
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


def test_answers_about_tables_have_the_members_of_the_document_and_no_others(whole: WholeGateway) -> None:
    whole.sql(EVERY_10_S.format("often", "orders"))
    whole.wait_quiet()
    whole.pass_time(seconds=10)
    whole.sql("SELECT * FROM often")
    root = "/freshtable/v1"
    [table] = whole.http.get(f"{root}/tables").json()["tables"]
    paths = whole.http.get(f"{root}/openapi.json").json()["paths"]

    for path, methods in paths.items():
        address = path.format(table_id=table["id"], run_id=table["last"]["id"])
        around = {"of": table["id"]} if path.endswith("/graph") else {}
        answer = whole.http.get(address, params=around)
        content = methods["get"]["responses"]["200"]["content"]["application/json"]

        jsonschema_rs.validate(without_others(content["schema"]), answer.json())

    assert len(paths) == 9
