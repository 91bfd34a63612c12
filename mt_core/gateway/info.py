"""GET /info and GET /api_versions."""

from __future__ import annotations

from fastapi import APIRouter

from mt_core.gateway.answers import JsonAnswer
from mt_core.gateway.services import GatewayServices


def info_router(services: GatewayServices) -> APIRouter:
    """Return the endpoint that names the product."""
    router = APIRouter()

    @router.get("/info")
    def get_info() -> JsonAnswer:
        return JsonAnswer({"productName": services.info.product_name, "version": services.info.version})

    return router


def versions_router(services: GatewayServices) -> APIRouter:
    """Return the endpoint by which clients negotiate the API version."""
    router = APIRouter()

    @router.get("/api_versions")
    def get_api_versions() -> JsonAnswer:
        return JsonAnswer({"versions": list(services.versions)})

    return router
