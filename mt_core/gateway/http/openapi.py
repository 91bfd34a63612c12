"""The OpenAPI document of each version, generated from its routes: GET /vN/openapi.json."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.schemas import BODY_ERRORS, ERROR, ERROR_REFERENCE, ERRORS, json_content
from mt_core.gateway.http.versions import ApiVersion

TITLE = "Freshtable SQL gateway"
DESCRIPTION = (
    "The REST API of Flink's SQL gateway (FLIP-91, FLIP-448), version {number}. "
    "Fields that are not known are ignored, no body is an empty object, and null is the same as absent."
)

# The name and the text of each response that several endpoints share.
_SHARED = {
    status: (HTTPStatus(status).phrase.replace(" ", ""), text)
    for status, text in sorted({**ERRORS, **BODY_ERRORS}.items())
}


def openapi_router(routes: Sequence[BaseRoute], version: ApiVersion, *, product_version: str) -> APIRouter:
    """Return the endpoint that serves the OpenAPI document of *routes*."""
    router = APIRouter()
    content = functools.cache(functools.partial(document, routes, version, product_version=product_version))

    @router.get("/openapi.json", include_in_schema=False)
    def get_openapi_document() -> JsonAnswer:
        return JsonAnswer(content())

    return router


def document(routes: Sequence[BaseRoute], version: ApiVersion, *, product_version: str) -> dict[str, Any]:
    """Return the OpenAPI document of *routes*, which belong to *version*."""
    body: dict[str, Any] = get_openapi(
        title=f"{TITLE}, V{version.number}",
        version=product_version,
        description=DESCRIPTION.format(number=version.number),
        routes=routes,
    )
    for methods in body["paths"].values():
        for endpoint in methods.values():
            _clean(endpoint)
    body["components"] = {
        "schemas": {"Error": ERROR},
        "responses": {name: json_content(text, ERROR_REFERENCE) for name, text in _SHARED.values()},
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    }
    body["security"] = [{}, {"token": []}]
    return body


def _clean(endpoint: dict[str, Any]) -> None:
    """Remove status 422, which the gateway never returns, and replace shared errors by references."""
    responses = endpoint["responses"]
    responses.pop("422", None)
    for status, (name, text) in _SHARED.items():
        if responses.get(str(status), {}).get("description") == text:
            responses[str(status)] = {"$ref": f"#/components/responses/{name}"}
    for parameter in endpoint.get("parameters", []):
        if parameter["name"] in {"session_handle", "operation_handle"}:
            parameter["schema"]["format"] = "uuid"
