"""The OpenAPI document of each version, generated from its routes: GET /<version>/openapi.json."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.schemas import BODY_ERRORS, ERROR, ERROR_REFERENCE, ERRORS, json_content

# The name and the text of each response that several endpoints share.
_SHARED = {
    status: (HTTPStatus(status).phrase.replace(" ", ""), text)
    for status, text in sorted({**ERRORS, **BODY_ERRORS}.items())
}


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a document says about its API as a whole."""

    title: str
    description: str
    product_version: str


def openapi_router(routes: Sequence[BaseRoute], about: About) -> APIRouter:
    """Return the endpoint that serves the OpenAPI document of *routes*."""
    router = APIRouter()
    content = functools.cache(functools.partial(document, routes, about))

    @router.get("/openapi.json", include_in_schema=False)
    def get_openapi_document() -> JsonAnswer:
        return JsonAnswer(content())

    return router


def document(routes: Sequence[BaseRoute], about: About) -> dict[str, Any]:
    """Return the OpenAPI document of *routes*."""
    body: dict[str, Any] = get_openapi(
        title=about.title, version=about.product_version, description=about.description, routes=routes
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
