"""The gateway's answers for programs: numbers exact, and errors that keep their code."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import httpx

from mt_core.client.http import GatewayClient, root_cause
from mt_core.errors import GatewayError

CODE_HEADER = "Freshtable-Error"


class ExactClient(GatewayClient):
    """A GatewayClient that reads fractions as Decimal and raises GatewayErrors with the gateway's code in `code`."""

    def _answer(self, response: httpx.Response) -> dict[str, Any]:
        try:
            body = response.json(parse_float=Decimal)
        except ValueError as cause:
            raise GatewayError(
                f"{self.url} answered {response.status_code} with something that is not JSON; is it a gateway?"
            ) from cause
        if not isinstance(body, dict) or response.status_code >= 400 or set(body) == {"errors"}:
            error = GatewayError(root_cause(body))
            error.code = response.headers.get(CODE_HEADER, error.code)
            raise error
        return body
