"""The configuration: settings read once from a file, the environment and -D, and validated.

A gateway must not start with a setting that it misunderstood, and users must be able to see where a value
came from. All sources are therefore first collected as strings with their origin, in order of increasing
precedence: defaults, file, environment variables, -D, --home. Only the effective text of each key is parsed,
by the kind of the setting. An unknown key is an error with a suggestion. YAML scalars are read as strings,
because YAML's own types would change values before the kind of the setting is known. The result, `Config`, is
immutable. Options of schedulers are an exception: the scheduler's plug-in, which declares them, is not loaded
yet. `Config` retains their values and the environment until `scheduler_options` is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from mt_core.base.access import Token
from mt_core.base.options import suggestion
from mt_core.base.secrets import Secret, masked, secret_url
from mt_core.config.settings import BY_KEY, ENVIRONMENT_PREFIX, SETTINGS, Kind, Setting
from mt_core.config.values import Value, shown, value_of, zone_key
from mt_core.errors import ConfigError

SPARK_PREFIX = "spark."
SCHEDULER_PREFIX = "workflow-scheduler."
CATALOG_PREFIX = "catalog.options."


class _Texts(yaml.BaseLoader):
    """A YAML loader that reads scalars as strings and refuses duplicate keys.

    YAML 1.1 would read 1:30 as 90 and on as true.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value} is given twice; keep one", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The text of a key and its source: a file, a variable, -D or the default."""

    text: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings, read and validated.

    `spark` contains the `spark.*` settings, unchanged, and `catalog_options` the settings `catalog.options.*`
    without that prefix.
    """

    values: Mapping[str, Value] = field(repr=False)
    sources: Mapping[str, str] = field(repr=False)
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    scheduler: Mapping[str, Entry] = field(default_factory=dict, repr=False)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    def text(self, key: str) -> str:
        value = self.values[key]
        return value.reveal() if isinstance(value, Secret) else str(value)

    def integer(self, key: str) -> int:
        value = self.values[key]
        if not isinstance(value, int):
            raise TypeError(f"{key} is not an integer setting")
        return value

    def boolean(self, key: str) -> bool:
        return self.values[key] is True

    def duration(self, key: str) -> timedelta:
        value = self.values[key]
        if not isinstance(value, timedelta):
            raise TypeError(f"{key} is not a duration setting")
        return value

    def duration_if_set(self, key: str) -> timedelta | None:
        """Return the duration of an optional setting, or None if it is not set."""
        return self.duration(key) if self.values[key] != "" else None

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The bearer tokens. Each request must carry one of them, unless the tuple is empty."""
        return tuple(part for part in self._parts("sql-gateway.security.tokens") if isinstance(part, Token))

    def names(self, key: str) -> tuple[str, ...]:
        return tuple(part for part in self._parts(key) if isinstance(part, str))

    def _parts(self, key: str) -> tuple[object, ...]:
        value = self.values[key]
        return value if isinstance(value, tuple) else ()

    @property
    def home(self) -> Path:
        """The home folder as an absolute path. It may not exist yet."""
        return Path(self.text("freshtable.home")).expanduser().absolute()

    @property
    def registry_url(self) -> Secret:
        return secret_url(self.text("registry.url") or f"sqlite:///{self.home / 'registry.db'}")

    @property
    def catalog_url(self) -> Secret:
        """The URL of the catalog `lake`: that of its REST server or of its database."""
        if self.is_served_catalog:
            return secret_url(self.text("catalog.uri"))
        return secret_url(self.text("catalog.url") or f"sqlite:///{self.home / 'catalog.db'}")

    @property
    def is_served_catalog(self) -> bool:
        """Whether the catalog `lake` is that of a REST server."""
        return self.text("catalog.type") == "rest"

    @property
    def warehouse(self) -> str:
        """The warehouse of the catalog `lake`; empty if its server chooses it."""
        return self.text("catalog.warehouse") or ("" if self.is_served_catalog else self.local_warehouse)

    @property
    def local_warehouse(self) -> str:
        """The folder of the home for the files of tables, which may not exist."""
        return str(self.home / "warehouse")

    def scheduler_options(self, declared: Iterable[str] = ()) -> dict[str, str]:
        """Return the settings `workflow-scheduler.<type>.*` of the configured type, without that prefix.

        *declared* are the options that the scheduler declares. Only these can also come from the environment.
        """
        prefix = f"{SCHEDULER_PREFIX}{self.text('workflow-scheduler.type')}."
        options = {
            key.removeprefix(prefix): entry for key, entry in self.scheduler.items() if key.startswith(prefix)
        }
        for option in declared:
            text = self.environ.get(Setting(key=prefix + option, help="").variable)
            if text is not None and not (option in options and options[option].source.startswith("-D")):
                options[option] = Entry(text=text, source="environment")
        return {option: entry.text for option, entry in options.items()}

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield key, value and source of each effective setting, ordered by key, with secrets masked."""
        texts = {key: shown(value) for key, value in self.values.items()}
        texts |= masked(self.spark) | masked({key: entry.text for key, entry in self.scheduler.items()})
        texts |= masked({f"{CATALOG_PREFIX}{key}": text for key, text in self.catalog_options.items()})
        for key in sorted(texts):
            yield key, texts[key], self.sources[key]


def load_config(
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
    home: Path | None = None,
) -> Config:
    """Return the configuration. Later sources take precedence over earlier ones.

    The sources are, in order: defaults, *file* (YAML), *environ*, *overrides* (`key=value`), *home*. Raises
    ConfigError for an unreadable file, an unknown key and an invalid value.
    """
    environ = environ or {}
    entries = {setting.key: Entry(text=setting.default, source="default") for setting in SETTINGS}
    entries |= {
        setting.key: Entry(text=machine_zone(environ), source="default")
        for setting in SETTINGS
        if setting.kind is Kind.ZONE
    }
    entries |= _from_file(file) if file else {}
    for setting in SETTINGS:
        if setting.variable in environ:
            entries[setting.key] = Entry(
                text=environ[setting.variable], source=f"environment variable {setting.variable}"
            )
    entries |= _from_overrides(overrides)
    if home is not None:
        entries["freshtable.home"] = Entry(text=str(home), source="--home")
    for key, entry in entries.items():
        if not _is_setting(key):
            way_out = suggestion(key, BY_KEY, likeness=0.5) or "docs/settings.md lists all settings."
            raise ConfigError(f"{key} ({entry.source}) is not a setting; {way_out}")
    return Config(
        values={
            setting.key: value_of(setting, entries[setting.key].text, entries[setting.key].source)
            for setting in SETTINGS
        },
        sources={key: entry.source for key, entry in entries.items()},
        spark={key: entry.text for key, entry in entries.items() if key.startswith(SPARK_PREFIX)},
        catalog_options={
            key.removeprefix(CATALOG_PREFIX): entry.text
            for key, entry in entries.items()
            if _is_catalog_option(key)
        },
        scheduler={key: entry for key, entry in entries.items() if _is_scheduler_option(key)},
        environ={name: text for name, text in environ.items() if name.startswith(ENVIRONMENT_PREFIX)},
    )


def machine_zone(environ: Mapping[str, str], localtime: Path = Path("/etc/localtime")) -> str:
    """Return the IANA name of the machine's time zone, or UTC if it has none."""
    link = str(localtime.resolve()) if localtime.is_symlink() else ""
    for name in (environ.get("TZ", "").removeprefix(":"), link.partition("zoneinfo/")[2]):
        if name and (zone := zone_key(name)):
            return zone
    return "UTC"


def _is_scheduler_option(key: str) -> bool:
    return key.startswith(SCHEDULER_PREFIX) and key.count(".") > 1


def _is_catalog_option(key: str) -> bool:
    return key.startswith(CATALOG_PREFIX) and key != CATALOG_PREFIX


def _from_overrides(overrides: Sequence[str]) -> dict[str, Entry]:
    entries = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key.strip():
            raise ConfigError(
                f"-D {override}: expected key=value, for example -D workflow-scheduler.type=memory."
            )
        entries[key.strip()] = Entry(text=text, source=f"-D {key.strip()}")
    return entries


def _from_file(file: Path) -> dict[str, Entry]:
    try:
        body = yaml.load(file.read_text(encoding="utf-8"), Loader=_Texts)
    except (OSError, UnicodeDecodeError) as cause:
        raise ConfigError(f"{file} cannot be read: {cause}; name a YAML file with settings.") from cause
    except yaml.YAMLError as cause:
        mark = getattr(cause, "problem_mark", None)
        where = f"{file}, line {mark.line + 1}" if mark else str(file)
        raise ConfigError(
            f"{where}: this is not YAML: {getattr(cause, 'problem', None) or cause}."
        ) from cause
    if body in (None, ""):
        return {}
    if not isinstance(body, dict):
        raise ConfigError(f"{file}: expected settings as `key: value`, found {type(body).__name__}.")
    entries: dict[str, Entry] = {}
    for key, text in _flat(body, ""):
        if key in entries:
            raise ConfigError(f"{key} is given twice in {file}; keep one.")
        entries[key] = Entry(text=text, source=f"file {file}")
    return entries


def _flat(body: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield dotted keys with their values as strings. An empty namespace yields nothing."""
    for name, value in body.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _flat(value, f"{key}.")
        elif isinstance(value, list):
            yield key, ",".join(str(item) for item in value)
        elif value or _is_setting(key):
            yield key, str(value)


def _is_setting(key: str) -> bool:
    return (
        key in BY_KEY or key.startswith(SPARK_PREFIX) or _is_scheduler_option(key) or _is_catalog_option(key)
    )
