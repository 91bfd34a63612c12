"""The configuration of the terminal client: configuration files, overridden by the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from mt_core.base.options import suggestion
from mt_core.errors import ConfigError

LIKENESS = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfiguration:
    """How to open a session and show results. None means that a value is not set.

    Paths are absolute or relative to the working directory.
    """

    gateway: str | None = None
    token: str | None = None
    session: str | None = None
    catalog: str | None = None
    schema: str | None = None
    format: str | None = None
    editing_mode: str | None = None
    history: str | None = None
    init: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    def over(self, below: ClientConfiguration) -> ClientConfiguration:
        """Return this configuration with *below* as its defaults.

        Lists are concatenated, and properties merged.
        """
        values: dict[str, Any] = {}
        for each in fields(self):
            own, other = getattr(self, each.name), getattr(below, each.name)
            match own:
                case tuple():
                    values[each.name] = (*other, *own)
                case Mapping():
                    values[each.name] = {**other, **own}
                case _:
                    values[each.name] = other if own is None else own
        return ClientConfiguration(**values)


def own_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's configuration file, which may not exist."""
    folder = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".config"
    return Path(folder) / "freshtable" / "client.yaml"


def read_files(own: Path, session_file: Path | None) -> ClientConfiguration:
    """Return the configuration of *session_file*, if any, with the user's *own* file as its defaults.

    The user's file need not exist. Raises ConfigError.
    """
    # Under sudo, HOME may be a folder that this user cannot read; Path.exists would then raise an error.
    below = read_file(own) if os.path.exists(own) else ClientConfiguration()
    return below if session_file is None else read_file(session_file).over(below)


def read_file(file: Path) -> ClientConfiguration:
    """Return the configuration in a YAML file. Paths are relative to the folder of the file.

    Raises ConfigError naming the file and the key.
    """
    import yaml

    try:
        body = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as cause:
        raise ConfigError(f"{file} cannot be read: {cause}") from cause
    if body is None:
        return ClientConfiguration()
    if not isinstance(body, dict):
        raise ConfigError(f"{file} has no keys; write for example gateway: http://127.0.0.1:8083")
    keys = {each.name.replace("_", "-") for each in fields(ClientConfiguration)}
    values = {str(key): _value(file, str(key), value, keys) for key, value in body.items()}
    return ClientConfiguration(**{key.replace("-", "_"): value for key, value in values.items()})


def _value(file: Path, key: str, value: Any, keys: set[str]) -> Any:
    if key not in keys:
        near = suggestion(key, keys, likeness=LIKENESS) or f"the keys are {', '.join(sorted(keys))}."
        raise ConfigError(f"{file}: there is no key {key}; {near}", key=key)
    match key, value:
        case "properties", dict():
            return {str(name): _text(part) for name, part in value.items()}
        case (("init" | "jars"), list()):
            return tuple(_path(file, str(part)) for part in value)
        case (("init" | "jars"), str()):
            return (_path(file, value),)
        case "history", str():
            return _path(file, value)
        case (("properties" | "init" | "jars"), _):
            expected = "keys with values" if key == "properties" else "a path, or a list of paths"
            raise ConfigError(f"{file}: {key} is '{value}'; expected {expected}.", key=key)
        case _, (str() | int() | float()):
            return _text(value)
        case _:
            raise ConfigError(f"{file}: {key} is '{value}'; expected a string.", key=key)


def _path(file: Path, path: str) -> str:
    # A jar may be a URI, which the gateway resolves.
    return path if "://" in path else os.path.join(file.parent.absolute(), Path(path).expanduser())


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_assignments(texts: Sequence[str]) -> dict[str, str]:
    """Return the properties in `-D key=value` options. Raises ConfigError for an option without a key."""
    properties = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key.strip() or not equals:
            raise ConfigError(f"-D {text} is not an assignment; write for example -D table.dml-sync=true.")
        properties[key.strip()] = value.strip()
    return properties
