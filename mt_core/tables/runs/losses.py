"""Losses: how often in a row a refresh has lost its process, and what follows from that. Pure functions.

What a loss shows about a refresh depends on the other work in the same process
(docs/design/refresh-protocol.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from mt_core.model.run import Loss, RefreshRun

# A refresh fails after MAX_ATTEMPTS losses of a process that no other work shared. After ALONE_AFTER losses
# of a shared process, it runs alone. After MAX_LOSSES of both kinds together, it fails.
MAX_ATTEMPTS, ALONE_AFTER, MAX_LOSSES = 3, 2, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """How many attempts in a row lost a process of their own, and how many lost a shared process."""

    alone: int = 0
    shared: int = 0

    def and_one(self, loss: Loss) -> Losses:
        """Return the losses after one more; that of a cluster does not count against the refresh."""
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
        """Whether the next attempt must run alone, to show whether this refresh is the cause."""
        return self.shared >= ALONE_AFTER or self.is_cause

    @property
    def is_cause(self) -> bool:
        """Whether enough attempts were lost while running alone to show that this refresh is the cause."""
        return self.alone >= MAX_ATTEMPTS

    @property
    def too_many(self) -> str:
        """Why there are too many losses to try again, as text for users, or "" if there are not."""
        if self.is_cause:
            return f"lost its process {self.alone} times"
        if (both := self.alone + self.shared) >= MAX_LOSSES:
            return (
                f"lost its process {both} times, {self.shared} of them next to other work, "
                "any of which may be the cause"
            )
        return ""


def losses_of(run: RefreshRun) -> Losses:
    """Return the losses of a run of the ledger, which starts a new attempt after each loss."""
    shared = run.shared or 0
    return Losses(alone=run.attempt - 1 - (run.excused or 0) - shared, shared=shared)
