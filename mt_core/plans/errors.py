"""Errors of compiled plans: a branch of the tree in `mt_core/errors.py`."""

from __future__ import annotations

from mt_core.errors import MtError


class PlanInvalid(MtError):
    """A plan file is invalid at a `place`, or its statement now has a different plan."""

    code = "PLAN_INVALID"
    http_status = 400

    def __init__(self, place: str, reason: str, *, plan: str | None = None) -> None:
        super().__init__(
            f"Plan {f'{plan}: ' if plan else ''}{place} {reason.rstrip('.')}.", plan=plan, place=place
        )
        self.place, self.reason = place, reason

    def of(self, plan: str) -> PlanInvalid:
        """Return this error with *plan*, the URI of the file."""
        return PlanInvalid(self.place, self.reason, plan=plan)


class PlanNotFound(MtError):
    """There is no plan file at the URI."""

    code = "PLAN_NOT_FOUND"
    http_status = 404


class PlanExists(MtError):
    """The plan file to be written already exists."""

    code = "PLAN_EXISTS"
    http_status = 409

    @classmethod
    def at(cls, uri: str) -> PlanExists:
        """Return the error for the existing file *uri*, with the possible solutions."""
        return cls(
            f"Cannot overwrite the plan file {uri}: delete it, write COMPILE PLAN '{uri}' IF NOT EXISTS to "
            "keep it, or SET 'table.plan.force-recompile' = 'true' to replace it.",
            plan=uri,
        )
