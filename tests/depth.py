"""The depth of random and generated tests: higher in `make test-deep` than in `make test-slow`."""

from __future__ import annotations

import logging
import os
import random

DEPTH = int(os.environ.get("FRESHTABLE_TEST_DEPTH", "1"))


def rounds(few: int, many: int) -> int:
    """Return the number of rounds or examples of a test: *few*, multiplied by *many* in a deep run."""
    return few if DEPTH == 1 else many * DEPTH


def dice(seed: int) -> random.Random:
    """Return the random generator of a test, with *seed*, or in a deep run with a new seed each time.

    A failure shows the seed.
    """
    if DEPTH > 1:
        seed = random.randrange(2**32)
    logging.getLogger(__name__).warning("seed %d", seed)
    return random.Random(seed)
