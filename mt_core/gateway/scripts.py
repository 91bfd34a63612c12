"""Deploying a script to a cluster of its own (application mode), which is refused; v4 only."""

from __future__ import annotations

from fastapi import APIRouter

from mt_core.errors import RequestInvalid, Unsupported
from mt_core.gateway.http.answers import JsonAnswer
from mt_core.gateway.http.endpoints import direct_router
from mt_core.gateway.http.errors import error_answer
from mt_core.gateway.http.requests import JsonBody, SessionHandle
from mt_core.gateway.http.schemas import DEPLOYED, SCRIPT, described
from mt_core.gateway.services import GatewayServices


def scripts_router(services: GatewayServices) -> APIRouter:
    """Return the endpoint of scripts."""
    router = direct_router()

    @router.post("/sessions/{session_handle}/scripts", **described("Deploy a script", DEPLOYED, body=SCRIPT))
    def deploy_script(session: SessionHandle, body: JsonBody) -> JsonAnswer:
        services.sessions.get(session)
        given = [name for name in ("script", "scriptUri") if body.text(name)]
        if len(given) != 1:
            what = "both are there" if given else "neither is there"
            missing = RequestInvalid(f"Please specify either script content or uri: script and scriptUri, {what}.")
            return error_answer(missing, doing="Failed to deploy the script.")
        raise Unsupported(
            "Scripts cannot be deployed: there is no application mode, Spark runs in the gateway's own driver; send the "
            "statements of the script one after the other, as `freshtable sql -f` and `sql-client.sh gateway -f` do."
        )

    return router
