"""GET /metrics: the metrics for monitoring systems such as Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from mt_core.base.extras import installation
from mt_core.gateway.http.endpoints import direct_router
from mt_core.gateway.http.errors import HttpError, error_answer
from mt_core.gateway.services import GatewayServices

PATH = "/metrics"


def metrics_router(services: GatewayServices) -> APIRouter:
    """Return the endpoint. It is not part of Flink's API, whose documents omit it."""
    router = direct_router()

    @router.get(PATH, include_in_schema=False)
    def get_metrics(request: Request) -> Response:
        if services.metrics is None:
            message = f"Metrics need the package prometheus_client; {installation('metrics')}."
            return error_answer(HttpError(message, "NOT_FOUND"), 404, doing="There are no metrics.")
        body, content_type = services.metrics(request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": content_type})

    return router
