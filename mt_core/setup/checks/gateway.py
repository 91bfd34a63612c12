"""Checks whether the gateway responds, its version, and whether Spark accepts work."""

from __future__ import annotations

from mt_core import __version__
from mt_core.client.home import url_in
from mt_core.client.http import GatewayRefused
from mt_core.client.info import READY, UNAUTHORIZED, GatewayInfo, read_info
from mt_core.model.finding import Finding
from mt_core.setup.machine import Machine

SUBJECT = "gateway"
TIMEOUT_S = 5.0


def check(machine: Machine) -> list[Finding]:
    """Return the finding about the gateway of the home, or at the configured address if there is none."""
    url = machine.gateway_url
    try:
        info = read_info(url, machine.token, TIMEOUT_S)
    except GatewayRefused as error:
        return [judge_silence(error, machine.start, held=url_in(machine.config.home) is not None)]
    return [judge_answer(url, info, __version__)]


def judge_silence(error: GatewayRefused, start: str, *, held: bool) -> Finding:
    """Return the finding about a gateway that does not respond.

    It is a problem if the gateway *held* the home without releasing it. *start* is the command that starts a
    gateway.
    """
    if error.code == UNAUTHORIZED:
        return Finding.problem(
            SUBJECT, error.message, "export FRESHTABLE_TOKEN=<token of sql-gateway.security.tokens>"
        )
    if held:
        return Finding.problem(SUBJECT, f"{error.message}; its home folder says that it is running", start)
    return Finding.note(SUBJECT, "no gateway runs", start)


def judge_answer(url: str, info: GatewayInfo, version: str) -> Finding:
    """Return the finding about a gateway's response, for a client of *version*."""
    if info.engine != READY:
        return Finding.problem(
            SUBJECT,
            f"{url} answers, but Spark does not accept work: {info.engine}",
            "see logs/spark.log in the home folder",
        )
    if info.version != version:
        text = f"{url} answers, with version {info.version}; this is version {version}"
        return Finding.note(SUBJECT, text, "restart the gateway with the installed version")
    if info.engine_note:
        text = f"{url} answers, Spark is ready, and {info.engine_note}"
        return Finding.note(
            SUBJECT, text, f"install the pyspark release that version {version} was built with"
        )
    return Finding.ok(SUBJECT, f"{url} answers, version {info.version}, Spark is ready")
