"""Endpoints whose arguments are read by one call each: FastAPI's reading takes longer than the work of a small statement.

FastAPI describes all of them, and reads headers, and query parameters other than text.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Collection, Coroutine
from inspect import Parameter
from typing import Any, get_args

from fastapi import APIRouter, Request, Response, params
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
Reader = Callable[[Request], Awaitable[Any]]


class DirectRoute(APIRoute):
    """An endpoint that returns a Response; a coroutine function runs in the event loop, any other in a thread."""

    def get_route_handler(self) -> Handler:
        general, parameters = super().get_route_handler(), _parameters(self.endpoint)
        readers = {each.name: _reader(each, self.param_convertors) for each in parameters}
        direct = {name: reader for name, reader in readers.items() if reader is not None}
        if len(direct) < len(readers):
            return general
        checked = frozenset(query.alias or each.name for each in parameters if (query := _checked_query(each)))
        call = _awaitable(self.endpoint)

        async def answer(request: Request) -> Response:
            if request.scope["query_string"] and not checked.isdisjoint(request.query_params):
                return await general(request)
            arguments = {name: await read(request) for name, read in direct.items()}
            response: Response = await call(**arguments)
            return response

        return answer


def direct_router(prefix: str = "") -> APIRouter:
    """Return a router whose endpoints are direct ones."""
    return APIRouter(prefix=prefix, route_class=DirectRoute)


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())


def _reader(parameter: Parameter, path: Collection[str]) -> Reader | None:
    """Return what reads an argument as FastAPI does, None for one that FastAPI has to read; *path* has the path's names."""
    name, mark, default = parameter.name, _mark(parameter), parameter.default
    match mark:
        case params.Depends(dependency=dependency) if inspect.iscoroutinefunction(dependency):
            return _dependency(dependency, path)
        case params.Query() if default is not Parameter.empty:
            text = _is_text(parameter)
            return functools.partial(_query_text, mark.alias or name, default) if text else _constant(default)
        case params.Path() | None if name in path and _is_text(parameter):
            return functools.partial(_path_text, name)
        case None if parameter.annotation is Request:
            return _request
        case _:
            return None


def _dependency(dependency: Callable[..., Awaitable[Any]], path: Collection[str]) -> Reader | None:
    """Return what calls a dependency of one argument."""
    [parameter] = _parameters(dependency)
    reader = _reader(parameter, path)
    if reader is None:
        return None

    async def read(request: Request) -> Any:
        return await dependency(await reader(request))

    return read


def _checked_query(parameter: Parameter) -> params.Query | None:
    """Return the mark of a parameter of the query that is no text: a value that is sent has to be checked."""
    mark = _mark(parameter)
    return mark if isinstance(mark, params.Query) and not _is_text(parameter) else None


def _mark(parameter: Parameter) -> Any:
    """Return what FastAPI says of a parameter; None where there is only a type."""
    return next(iter(getattr(parameter.annotation, "__metadata__", ())), None)


def _is_text(parameter: Parameter) -> bool:
    """Return whether a parameter is a string of any length and kind."""
    annotation, mark = parameter.annotation, _mark(parameter)
    return (annotation if mark is None else get_args(annotation)[0]) is str and not getattr(mark, "metadata", ())


def _awaitable(endpoint: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    return endpoint if inspect.iscoroutinefunction(endpoint) else functools.partial(run_in_threadpool, endpoint)


async def _request(request: Request) -> Request:
    return request


async def _path_text(name: str, request: Request) -> Any:
    return request.path_params[name]


async def _query_text(name: str, default: Any, request: Request) -> Any:
    return request.query_params.get(name, default)


def _constant(value: Any) -> Reader:
    async def read(request: Request) -> Any:
        return value

    return read
