"""Checks whether the scheduler is installed and configured, and whether its service works."""

from __future__ import annotations

from mt_core.app.settings import scheduler_options
from mt_core.errors import MtError
from mt_core.model.finding import Finding
from mt_core.setup.machine import Machine
from mt_core.workflow.loader import load_scheduler

SUBJECT = "scheduler"
TYPE_KEY = "workflow-scheduler.type"


def check(machine: Machine) -> list[Finding]:
    """Return the findings of the configured scheduler about itself."""
    name = machine.config.text(TYPE_KEY)
    try:
        scheduler = load_scheduler(name)
        options = scheduler_options(machine.config, scheduler)
        return list(scheduler().diagnose(options, machine.clock))
    except MtError as error:
        return [
            Finding.problem(SUBJECT, error.message, f"correct {TYPE_KEY} and workflow-scheduler.{name}.*")
        ]
