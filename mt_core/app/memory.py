"""What the process tells Python's garbage collector."""

from __future__ import annotations

import gc

# Ten times Python's own: requests and ticks make many objects, which die at once by their reference counts.
THRESHOLDS = (20_000, 20, 50)


def spare_what_stays() -> None:
    """Take all that was made so far out of collection: modules, endpoints and workflows stay as long as the process does,
    and to look through them again and again makes requests wait for a tenth of a second."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
