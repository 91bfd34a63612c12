"""Statements about the properties of a session: SET and RESET."""

from __future__ import annotations

from dataclasses import dataclass

from mt_core.base.rowset import Column, RowSet
from mt_core.base.secrets import masked
from mt_core.jobs.installed import InstalledHooks
from mt_core.sessions.operations.operation import DONE, content
from mt_core.sessions.properties.property_values import check_set
from mt_core.sessions.statements.handlers import Handlers
from mt_core.sessions.statements.spark_work import Task
from mt_core.sql.statements import ResetProperty, SetProperty

_COLUMNS = (Column(name="key"), Column(name="value"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyStatements:
    """Sets, shows and resets properties."""

    hooks: InstalledHooks

    @property
    def handlers(self) -> Handlers:
        return {SetProperty: self._set, ResetProperty: self._reset}

    def _set(self, task: Task, statement: SetProperty) -> None:
        """Set a property, or show one or all. Raises RequestInvalid."""
        session, key, value = task.session, statement.key, statement.value
        if key is None or value is None:
            properties = masked(session.view().properties).items()
            shown = [[each, text] for each, text in properties if key in (None, each)]
            task.operation.finish(content(RowSet(columns=_COLUMNS, rows=shown)))
            return
        check_set(key, value)
        self.hooks.check({key: value})
        session.overrides = {**session.overrides, key: value}
        task.operation.finish(DONE)

    def _reset(self, task: Task, statement: ResetProperty) -> None:
        task.session.reset(statement.key)
        task.operation.finish(DONE)
