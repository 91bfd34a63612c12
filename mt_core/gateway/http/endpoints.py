"""Endpoints that parse their arguments directly, because FastAPI takes longer than a small statement.

FastAPI still describes all endpoints, and parses headers and query parameters that are not text.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass, replace
from inspect import Parameter
from typing import Any, get_args

from fastapi import APIRouter, Request, Response, params
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An argument of an endpoint: the value that *read* returns, or the result of *dependency* for it.

    A request with the query parameter *checked* is left to FastAPI, which validates it.
    """

    name: str
    read: Callable[[Request], Any]
    dependency: Callable[[Any], Awaitable[Any]] | None = None
    checked: str | None = None


class DirectRoute(APIRoute):
    """An endpoint that returns a Response. Coroutines run in the event loop, other functions in a thread."""

    def get_route_handler(self) -> Handler:
        general, endpoint = super().get_route_handler(), self.endpoint
        parameters = inspect.signature(endpoint, eval_str=True).parameters.values()
        arguments = [
            each for each in (_argument(one, self.param_convertors) for one in parameters) if each is not None
        ]
        if len(arguments) < len(parameters):
            return general
        checked = frozenset(each.checked for each in arguments if each.checked is not None)
        in_event_loop = inspect.iscoroutinefunction(endpoint)

        async def answer(request: Request) -> Response:
            if request.scope["query_string"] and not checked.isdisjoint(request.query_params):
                return await general(request)
            values = {}
            for argument in arguments:
                value = argument.read(request)
                values[argument.name] = (
                    value if argument.dependency is None else await argument.dependency(value)
                )
            response: Response
            response = await (endpoint(**values) if in_event_loop else run_in_threadpool(endpoint, **values))
            return response

        return answer


def direct_router(prefix: str = "") -> APIRouter:
    """Return a router whose endpoints are `DirectRoute` objects."""
    return APIRouter(prefix=prefix, route_class=DirectRoute)


def _argument(parameter: Parameter, path: Collection[str]) -> Argument | None:
    """Return the direct reader of an endpoint's parameter, or None if FastAPI must parse it.

    *path* contains the names of the parameters in the path.
    """
    name, default, kind = parameter.name, parameter.default, parameter.annotation
    mark = next(iter(getattr(kind, "__metadata__", ())), None)
    kind = kind if mark is None else get_args(kind)[0]
    any_text = kind is str and not getattr(mark, "metadata", ())
    match mark:
        case params.Depends(dependency=dependency) if inspect.iscoroutinefunction(dependency):
            [of_dependency] = inspect.signature(dependency, eval_str=True).parameters.values()
            argument = _argument(of_dependency, path)
            if argument is None or argument.dependency is not None:
                return None
            return replace(argument, name=name, dependency=dependency)
        case params.Query() if default is not Parameter.empty:
            key = mark.alias or name
            if any_text:
                return Argument(name=name, read=lambda request: request.query_params.get(key, default))
            return Argument(name=name, read=lambda _request: default, checked=key)
        case params.Path() | None if name in path and any_text:
            return Argument(name=name, read=lambda request: request.path_params[name])
        case None if kind is Request:
            return Argument(name=name, read=lambda request: request)
        case _:
            return None
