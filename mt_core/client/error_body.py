"""The body of an error: the error itself from our gateway, Flink's list of texts from any other."""

from __future__ import annotations

from typing import Any

from mt_core.errors import GatewayError


def read_error(body: Any, code: str | None = None) -> GatewayError:
    """Return what an error body says; *code* is the header's, for gateways that say no more than Flink's."""
    ours = body.get("error") if isinstance(body, dict) else None
    if isinstance(ours, dict):
        return GatewayError(str(ours.get("message", "")), code=ours.get("code", code), facts=ours.get("facts"))
    return GatewayError(root_cause(body), code=code)


def root_cause(body: Any) -> str:
    """Return what follows the last `Caused by:` of Flink's errors, without the class name, else all of them."""
    errors = body.get("errors") if isinstance(body, dict) else None
    if not isinstance(errors, list) or not errors:
        return f"The gateway answered with an error that cannot be read: {body}"
    _, found, cause = str(errors[-1]).rpartition("Caused by: ")
    if not found:
        return "\n".join(str(error) for error in errors)
    cause = cause.partition("\n\tat ")[0].partition("\n\nEnd of exception")[0].strip()
    name, _, text = cause.partition(": ")
    return text if text and name.replace(".", "").replace("$", "").isidentifier() else cause
