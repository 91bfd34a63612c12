"""Checks whether the gateway's port is free, or which process uses it."""

from __future__ import annotations

from mt_core.client.http import GatewayRefused
from mt_core.client.info import UNAUTHORIZED, read_info
from mt_core.errors import ConfigError, PortInUse
from mt_core.gateway.http.server import check_address
from mt_core.model.finding import Finding
from mt_core.setup.machine import Machine

SUBJECT = "port"
TIMEOUT_S = 5.0


def check(machine: Machine) -> list[Finding]:
    """Return a finding on whether the gateway's port is free, or used by a gateway or another program."""
    where = f"{machine.host}:{machine.port}"
    try:
        check_address(machine.host, machine.port)
    except PortInUse:
        return [_holder(machine, where)]
    except ConfigError as error:
        return [Finding.problem(SUBJECT, error.message, "-D sql-gateway.endpoint.rest.address=127.0.0.1")]
    return [Finding.ok(SUBJECT, f"{where} is free" if machine.port else "the gateway takes any free port")]


def _holder(machine: Machine, where: str) -> Finding:
    try:
        # No token is sent, because another user's program may listen there.
        info = read_info(machine.configured_url, None, TIMEOUT_S)
    except GatewayRefused as error:
        if error.code == UNAUTHORIZED:
            return Finding.ok(SUBJECT, f"{where} is used by a Freshtable gateway, which requires a token")
        way_out = (
            f"stop that program, or choose another port: -D sql-gateway.endpoint.rest.port={machine.port + 1}"
        )
        return Finding.problem(SUBJECT, f"{where} is used by another program ({error.message})", way_out)
    return Finding.ok(SUBJECT, f"{where} is used by a Freshtable gateway, version {info.version}")
