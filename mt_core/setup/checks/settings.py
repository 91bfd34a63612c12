"""Checks whether a gateway would start with the settings."""

from __future__ import annotations

from mt_core.app.home import Home
from mt_core.app.settings import (
    api_versions,
    check_exposure,
    driver_settings,
    job_hooks,
    manager_settings,
    page_base,
)
from mt_core.errors import ConfigError
from mt_core.model.finding import Finding
from mt_core.setup.machine import Machine

SUBJECT = "settings"


def check(machine: Machine) -> list[Finding]:
    """Return a finding on whether the gateway's settings are valid together."""
    config = machine.config
    try:
        check_exposure(config)
        api_versions(config)
        page_base(config)
        job_hooks(config)
        manager_settings(config)
        driver_settings(config, Home(config.home), machine.environ)
    except ConfigError as error:
        return [
            Finding.problem(SUBJECT, error.message, "correct the setting in the file, the environment or -D")
        ]
    changed = sum(source != "default" for _key, _text, source in config.rows())
    return [Finding.ok(SUBJECT, f"a gateway starts with them; {changed} differ from the defaults")]
