"""Plug-ins: finds the class that an entry point names, through a pluggy hook."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pluggy

from mt_core.errors import PluginError


def plugin_class(point: EntryPoint, *, noun: str, hooks: type, offer: str) -> type[Any]:
    """Return the plug-in's class with the name of *point*; raise PluginError naming the problem.

    No other plug-in is imported. *offer* is the hook in *hooks* that returns the classes of a plug-in. *noun*
    is the word for these classes in messages.
    """
    name = point.name
    try:
        plugin = point.load()
    except ImportError as cause:
        raise PluginError(
            f"{noun.capitalize()} {name!r} ({point.value}) cannot be imported: {cause}."
        ) from cause
    manager = pluggy.PluginManager("mt_core")
    manager.add_hookspecs(hooks)
    manager.register(plugin, name=name)
    classes = [cls for offered in getattr(manager.hook, offer)() for cls in offered if cls.identifier == name]
    if len(classes) != 1:
        raise PluginError(f"Plug-in {point.value} offers {len(classes)} {noun}s named {name!r}, not one.")
    loaded_class: type[Any] = classes[0]
    return loaded_class
