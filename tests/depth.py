"""How deep the long tests go: some rounds and cases in `make test-slow`, ten times the rounds and all cases in `make test-deep`."""

from __future__ import annotations

import os

DEPTH = int(os.environ.get("FRESHTABLE_TEST_DEPTH", "1"))
