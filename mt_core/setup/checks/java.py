"""Checks whether a Java that Spark can use is installed."""

from __future__ import annotations

from mt_core.errors import JavaMissing
from mt_core.model.finding import Finding
from mt_core.setup.machine import Machine
from mt_core.spark.driver.java import ADVICE, installed_java

SUBJECT = "java"


def check(machine: Machine) -> list[Finding]:
    """Return a finding about which Java Spark will use and how it was found."""
    try:
        java = installed_java(machine.environ)
    except JavaMissing as error:
        return [Finding.problem(SUBJECT, error.message.removesuffix(ADVICE).strip(), ADVICE)]
    way = "by JAVA_HOME" if machine.environ.get("JAVA_HOME") else "on the PATH"
    return [Finding.ok(SUBJECT, f"Java {java.version}, {java.program}, found {way}")]
