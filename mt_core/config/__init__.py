"""Configuration: each setting is declared in one place, and all settings are read once."""

from mt_core.config.reading import Config, load_config, machine_zone
from mt_core.config.settings import SETTINGS, Kind, Setting, settings_markdown
from mt_core.config.values import value_of

__all__ = [
    "SETTINGS",
    "Config",
    "Kind",
    "Setting",
    "load_config",
    "machine_zone",
    "settings_markdown",
    "value_of",
]
