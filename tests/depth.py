"""How deep the long tests go: some rounds and cases in `make test-slow`,
many times those in `make test-deep`.
"""

from __future__ import annotations

import logging
import os
import random

DEPTH = int(os.environ.get("FRESHTABLE_TEST_DEPTH", "1"))


def rounds(few: int, many: int) -> int:
    """Return how many rounds or examples a test goes through: *few* in `make test-slow`,
    so many times *many* in a deep run.
    """
    return few if DEPTH == 1 else many * DEPTH


def dice(seed: int) -> random.Random:
    """Return the chance of a test: *seed* in `make test-slow`, and in a deep run another one each time,
    which a failure shows.
    """
    if DEPTH > 1:
        seed = random.randrange(2**32)
    logging.getLogger(__name__).warning("seed %d", seed)
    return random.Random(seed)
