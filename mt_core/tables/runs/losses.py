"""Losses: how often in a row a refresh has lost its process, and what follows from that. Pure.

What a loss shows about one of several refreshes depends on what else was at work
(docs/decisions/0003-refresh-protocol.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from mt_core.model.run import Loss, RefreshRun

# How many attempts may be lost in a process that no other work shared, before the refresh fails;
# how many shared ones, before it is repeated beside no other; and how many of both kinds, before it fails
# whatever else there was.
MAX_ATTEMPTS, ALONE_AFTER, MAX_LOSSES = 3, 2, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """How many attempts in a row lost a process that was theirs alone, and how many one
    that other work shared.
    """

    alone: int = 0
    shared: int = 0

    def and_one(self, loss: Loss) -> Losses:
        """Return these with one more; the loss of a cluster shows nothing about the refresh."""
        match loss:
            case Loss.ALONE:
                return replace(self, alone=self.alone + 1)
            case Loss.SHARED:
                return replace(self, shared=self.shared + 1)
            case Loss.OF_CLUSTER:
                return self
            case _:
                assert_never(loss)

    @property
    def must_be_alone(self) -> bool:
        """Whether so many were shared that the next attempt has to show whether this refresh is the cause,
        or it is known to be.
        """
        return self.shared >= ALONE_AFTER or self.is_cause

    @property
    def is_cause(self) -> bool:
        """Whether so many were of this refresh alone that it is the cause of them."""
        return self.alone >= MAX_ATTEMPTS

    @property
    def too_many(self) -> str:
        """How many there were, in words, if that is too many to try again; "" if it is not."""
        if self.is_cause:
            return f"lost its process {self.alone} times"
        if (both := self.alone + self.shared) >= MAX_LOSSES:
            return (
                f"lost its process {both} times, {self.shared} of them beside other work, "
                "any of which can be the cause"
            )
        return ""


def losses_of(run: RefreshRun) -> Losses:
    """Return the losses of a run of the ledger, which has a new attempt after each."""
    shared = run.shared or 0
    return Losses(alone=run.attempt - 1 - (run.excused or 0) - shared, shared=shared)
