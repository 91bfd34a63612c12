"""The options of a command as a dataclass with one annotated field per option."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_type_hints


def with_options(options: type[Any]) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """Return a decorator that passes a command its options as one instance of the dataclass *options*.

    typer sees the fields of the dataclass as the command's parameters.
    """
    hints = get_type_hints(options, include_extras=True)
    parameters = [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name]
        )
        for each in fields(options)
    ]

    def decorate(command: Callable[[Any], None]) -> Callable[..., None]:
        def run(**values: Any) -> None:
            command(options(**values))

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        vars(run)["__signature__"] = inspect.Signature(parameters)
        return run

    return decorate
