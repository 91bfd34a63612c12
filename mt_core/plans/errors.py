"""Errors of compiled plans, a branch of the tree that `mt_core/errors.py` draws."""

from __future__ import annotations

from mt_core.errors import MtError


class PlanInvalid(MtError):
    """The file of a compiled plan cannot be read at a `place`, for a `reason`,
    or its statement gives another plan now.
    """

    code = "PLAN_INVALID"
    http_status = 400

    def __init__(self, place: str, reason: str, *, plan: str | None = None) -> None:
        super().__init__(
            f"Plan {f'{plan}: ' if plan else ''}{place} {reason.rstrip('.')}.", plan=plan, place=place
        )
        self.place, self.reason = place, reason

    def of(self, plan: str) -> PlanInvalid:
        """Return the error of the file with the URI *plan*."""
        return PlanInvalid(self.place, self.reason, plan=plan)


class PlanNotFound(MtError):
    """There is no file of a compiled plan at the URI."""

    code = "PLAN_NOT_FOUND"
    http_status = 404


class PlanExists(MtError):
    """The file that a compiled plan would be written to is there already."""

    code = "PLAN_EXISTS"
    http_status = 409

    @classmethod
    def at(cls, uri: str) -> PlanExists:
        """Return the refusal to write a plan over the file *uri*, with all ways out."""
        return cls(
            f"Cannot overwrite the plan file {uri}: delete it, write COMPILE PLAN '{uri}' IF NOT EXISTS to "
            "keep it, or SET 'table.plan.force-recompile' = 'true' to replace it.",
            plan=uri,
        )
