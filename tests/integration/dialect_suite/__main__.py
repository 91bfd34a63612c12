"""Runs SQLAlchemy's own suite for dialects against a gateway: `python -m tests.integration.dialect_suite URL [-k …]`.

In a process of its own: SQLAlchemy's plug-in changes how pytest collects, and our settings of pytest are not for its tests.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from sqlalchemy.dialects import registry

FOLDER = Path(__file__).parent


def main(url: str, *options: str) -> int:
    for name in ("freshtable", "freshtable.gateway"):
        registry.register(name, "mt_core.client.dialect", "FreshtableDialect")
    return pytest.main(
        [
            str(FOLDER / "suite.py"),
            *("-c", str(FOLDER / "setup.cfg"), "--rootdir", str(FOLDER), "-p", "no:cacheprovider"),
            *("-p", "sqlalchemy.testing.plugin.pytestplugin", "--dburi", url),
            *options,
        ]
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
