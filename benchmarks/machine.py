"""The machine of the measurement, so that readers can compare the figures with their own."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime

import psutil
import pyspark

from mt_core import __version__
from mt_core.spark.driver.jars import PACKAGES
from mt_core.spark.driver.java import check_java


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Facts about the machine, recorded before anything was measured."""

    facts: tuple[tuple[str, str], ...]

    @classmethod
    def look(cls) -> Machine:
        """Return the facts of this machine now."""
        iceberg = next(package for package in PACKAGES if "iceberg" in package)
        facts = {
            "measured": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Freshtable {__version__}",
            "cores": f"{os.cpu_count()} ({_processor()})",
            "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
            "load average before": ", ".join(f"{load:.2f}" for load in os.getloadavg())
            + " (1, 5, 15 minutes)",
            "system": platform.platform(terse=True),
            "Python": platform.python_version(),
            "Java": _java(),
            "Spark": pyspark.__version__,
            "Iceberg": iceberg.rsplit(":", 1)[-1],
        }
        return cls(facts=tuple(facts.items()))

    def markdown(self) -> str:
        return "\n".join(f"- {name}: {value}" for name, value in self.facts)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            found = re.search(r"^model name\s*:\s*(.+)$", info.read(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.machine()


def _java() -> str:
    told = subprocess.run(
        [check_java(os.environ), "-version"], capture_output=True, text=True, check=False
    ).stderr
    found = re.search(r'version "([^"]+)"', told)
    return found[1] if found else "unknown"
