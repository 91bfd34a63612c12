"""Properties of compiled plans: whether to overwrite files, and where temporary objects come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mt_core.config.settings import Kind, Setting

FORCE_RECOMPILE = Setting(key="table.plan.force-recompile", kind=Kind.BOOLEAN, default="false", help="")
COMPILED_OBJECTS = Setting(
    key="table.plan.compile.catalog-objects",
    kind=Kind.CHOICE,
    default="all",
    choices=("all", "schema", "identifier"),
    help="",
)
RESTORED_OBJECTS = Setting(
    key="table.plan.restore.catalog-objects",
    kind=Kind.CHOICE,
    default="all",
    choices=("all", "all_enforced", "identifier"),
    help="",
)
PLAN_SETTINGS = (FORCE_RECOMPILE, COMPILED_OBJECTS, RESTORED_OBJECTS)


@dataclass(frozen=True, slots=True)
class PlanProperties:
    """The plan properties of a session."""

    properties: Mapping[str, str]

    @property
    def force_recompile(self) -> bool:
        """Whether COMPILE PLAN overwrites an existing file."""
        return self._value(FORCE_RECOMPILE) == "true"

    def compiled(self, temporary: Sequence[str]) -> tuple[str, ...]:
        """Return the *temporary* statements of the session that a compiled plan includes."""
        return tuple(temporary) if self._value(COMPILED_OBJECTS) == "all" else ()

    def restored(self, planned: Sequence[str], temporary: Sequence[str]) -> tuple[str, ...]:
        """Return the statements that create a plan's temporary objects: the plan's own or the session's."""
        match self._value(RESTORED_OBJECTS):
            case "all_enforced":
                return tuple(planned)
            case "identifier":
                return tuple(temporary)
            case _:
                return tuple(planned or temporary)

    def _value(self, setting: Setting) -> str:
        return self.properties.get(setting.key, "").strip().lower() or str(setting.default)
