"""Checks Spark's ports: whether they require a secret, and whether a cluster's traffic is encrypted."""

from __future__ import annotations

from mt_core.app.home import Home
from mt_core.app.settings import driver_settings
from mt_core.errors import ConfigError
from mt_core.model.finding import Finding
from mt_core.setup.machine import Machine
from mt_core.spark.driver.cluster import is_cluster
from mt_core.spark.driver.conf import (
    ALLOW_UNAUTHENTICATED,
    ENCRYPTION,
    DriverSettings,
    authenticates,
    spark_conf,
)

SUBJECT = "spark ports"


def check(machine: Machine) -> list[Finding]:
    """Return the finding about Spark's ports.

    There is none if the settings are invalid, because their own check reports that.
    """
    try:
        return [judge(driver_settings(machine.config, Home(machine.config.home), machine.environ))]
    except ConfigError:
        return []


def judge(settings: DriverSettings) -> Finding:
    """Return the finding about Spark's ports with *settings*."""
    master = settings.master
    if not authenticates(settings):
        text = (
            f"those of Spark on {master} do not require a secret: anyone who reaches them can run code "
            "as the gateway's user"
        )
        return Finding.note(
            SUBJECT, text, f"set spark.authenticate.secret, and {ALLOW_UNAUTHENTICATED} to false"
        )
    if is_cluster(master) and spark_conf(settings).get(ENCRYPTION, "").strip().lower() != "true":
        text = f"require a secret; the network traffic of {master} is not encrypted"
        return Finding.note(SUBJECT, text, f"set {ENCRYPTION} to true, on the cluster too")
    return Finding.ok(SUBJECT, "require a secret")
