"""Installed job status hooks: built-in hooks, and plug-ins that are imported when a job first names them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from importlib.metadata import entry_points

from mt_core.base.plugins import plugin_class
from mt_core.errors import PluginError, RequestInvalid
from mt_core.jobs.hooks import ENTRY_POINT_GROUP, JobHooks, JobStatusHook
from mt_core.model.job import JobHook

HOOKS_KEY = "job.hooks"


class InstalledHooks:
    """Finds hooks by name, *own* hooks before plug-ins. Thread-safe."""

    def __init__(self, own: Mapping[str, JobStatusHook] | None = None) -> None:
        self._hooks, self._offered = dict(own or {}), tuple(own or ())
        self._lock = threading.Lock()

    def provide(self, hook: JobStatusHook) -> None:
        """Register a built-in hook that only the gateway itself attaches to jobs."""
        with self._lock:
            self._hooks[hook.identifier] = hook

    def find(self, name: str) -> JobStatusHook:
        """Return the hook *name*; raise PluginError if it is missing or invalid."""
        with self._lock:
            if name not in self._hooks:
                self._hooks[name] = _load(name, self._offered)
            return self._hooks[name]

    def check(self, properties: Mapping[str, str]) -> None:
        """Raise RequestInvalid if `job.hooks` in *properties* names a hook that is missing or invalid."""
        try:
            for name in _names(properties):
                self.find(name)
        except PluginError as cause:
            raise RequestInvalid(f"{HOOKS_KEY}: {cause}", key=HOOKS_KEY) from cause

    def attached(self, properties: Mapping[str, str]) -> tuple[JobHook, ...]:
        """Return the hooks that `job.hooks` names, with the bodies to store.

        Raises RequestInvalid if a hook is missing or invalid, or if it refuses *properties*.
        """
        self.check(properties)
        return tuple(
            JobHook(name=name, body=self.find(name).body_of(properties)) for name in _names(properties)
        )


def _names(properties: Mapping[str, str]) -> tuple[str, ...]:
    names = properties.get(HOOKS_KEY, "").split(",")
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


def _load(name: str, own: Collection[str]) -> JobStatusHook:
    points = entry_points(group=ENTRY_POINT_GROUP)
    matching = {point.value: point for point in points if point.name == name}
    if len(matching) != 1:
        names = ", ".join(sorted({*own, *(point.name for point in points)})) or "none"
        problem = (
            f"claimed by {' and '.join(sorted(matching))}; uninstall one"
            if matching
            else f"not installed; installed hooks: {names}"
        )
        raise PluginError(f"Job status hook {name!r} is {problem}.")
    [point] = matching.values()
    hook: JobStatusHook = plugin_class(
        point, noun="job status hook", hooks=JobHooks, offer="mt_job_status_hooks"
    )()
    return hook
