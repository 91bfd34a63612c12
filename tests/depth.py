"""How deep the long random tests go: a few rounds in `make test-slow`, ten times as many in `make test-deep`."""

from __future__ import annotations

import os

DEPTH = int(os.environ.get("FRESHTABLE_TEST_DEPTH", "1"))
