"""Tuning of Python's garbage collector for a process that serves for long."""

from __future__ import annotations

import gc

# Ten times Python's own: requests and ticks make many objects, which die at once by their reference counts.
THRESHOLDS = (20_000, 20, 50)


def freeze_startup_objects() -> None:
    """Exclude all present objects from collection: modules, endpoints and workflows live as long as the process, and each
    search through them makes requests wait for a tenth of a second."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
