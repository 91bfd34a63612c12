"""Checks whether the gateway's clock agrees with this machine's."""

from __future__ import annotations

from mt_core.client.http import GatewayRefused
from mt_core.client.info import read_info
from mt_core.model.finding import Finding, clock_finding
from mt_core.setup.machine import Machine

TIMEOUT_S = 5.0


def check(machine: Machine) -> list[Finding]:
    """Return a finding about how far the gateway's clock differs from this machine's.

    If no gateway responds, the finding is only a note.
    """
    sent = machine.clock.now()
    try:
        info = read_info(machine.gateway_url, machine.token, TIMEOUT_S)
    except GatewayRefused:
        return [Finding.note("clock", "no gateway answers, so clocks were not compared")]
    return [clock_finding(f"the gateway at {machine.gateway_url}", info.date, sent, machine.clock.now())]
