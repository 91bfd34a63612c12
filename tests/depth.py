"""How deep the long tests go: some rounds and cases in `make test-slow`, many times those in `make test-deep`."""

from __future__ import annotations

import os

DEPTH = int(os.environ.get("FRESHTABLE_TEST_DEPTH", "1"))


def rounds(few: int, many: int) -> int:
    """Return how many rounds or examples a test goes through: *few* in `make test-slow`, so many times *many* in a deep run."""
    return few if DEPTH == 1 else many * DEPTH
