"""Sampled values: what a background pass has last read of several families, for any number of scrapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from mt_core.metrics.families import Family
from mt_core.metrics.instruments import Instruments, Values


class Sampled:
    """The values of *families*, which a pass replaces together. Without a value, a family has no sample."""

    def __init__(self, instruments: Instruments, families: Iterable[Family]) -> None:
        self.values: Mapping[Family, Values] = {}
        for family in families:
            instruments.read(family, partial(self._of, family))

    def _of(self, family: Family) -> Values:
        return self.values.get(family, {})
