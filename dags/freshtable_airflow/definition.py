"""A workflow definition as the gateway serves it, validated field by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow.timetables.base import Timetable

from freshtable_airflow.errors import DefinitionBroken
from freshtable_airflow.grid import FIRST_MONDAY
from freshtable_airflow.timetable import ExpressionTimetable, GridTimetable

INTERVAL_VERSION, EXPRESSION_VERSION = 2, 3


@dataclass(frozen=True)
class Workflow:
    """The workflow of a DAG.

    `name` is the DAG's id, `workflow_id` the table's id, and `cadence` the frequency of refreshes as text.
    """

    name: str
    workflow_id: str
    identifier: str
    description: str
    timetable: Timetable
    cadence: str
    zone: str
    paused: bool
    init_config: Mapping[str, str]
    execution_config: Mapping[str, str]
    dynamic_options: Mapping[str, str]
    definition: str
    details_url: str

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Workflow:
        """Return the workflow of a served definition; raise DefinitionBroken naming the invalid field."""
        try:
            return cls(
                name=_text(body, "name"),
                workflow_id=_text(body, "workflow_id"),
                identifier=_text(body, "identifier"),
                description=str(body.get("description") or ""),
                timetable=_timetable(body),
                cadence=_cadence(body),
                zone=_text(body, "zone"),
                paused=bool(body.get("paused")),
                init_config=_texts(body, "init_config"),
                execution_config=_texts(body, "execution_config"),
                dynamic_options=_texts(body, "dynamic_options"),
                definition=str(body.get("definition") or ""),
                details_url=str(body.get("details_url") or ""),
            )
        except (KeyError, TypeError) as cause:
            raise DefinitionBroken(
                f"{type(cause).__name__}: {cause}: a field is missing or has the wrong type."
            ) from cause


def _timetable(body: Mapping[str, Any]) -> Timetable:
    """Return the timetable of the served schedule."""
    schedule = body["schedule"]
    version = schedule["version"]
    if version == EXPRESSION_VERSION:
        return ExpressionTimetable(
            _text(schedule, "cron"), timezone=_text(schedule, "zone"), since=_text(body, "since")
        )
    if version != INTERVAL_VERSION:
        raise DefinitionBroken(
            f"schedule: version {version} is newer than this freshtable-airflow; "
            "upgrade the package in Airflow and restart its components."
        )
    if schedule["anchor"] != FIRST_MONDAY.isoformat():
        raise DefinitionBroken(f"schedule: the anchor {schedule['anchor']} is not {FIRST_MONDAY}.")
    return GridTimetable(
        schedule["amount"],
        schedule["unit"],
        timezone=_text(schedule, "zone"),
        since=_text(body, "since"),
        cron=str(schedule.get("cron") or ""),
    )


def _cadence(body: Mapping[str, Any]) -> str:
    freshness = body["freshness"]
    if freshness is None:
        return f"refreshed by cron {body['schedule']['cron']}"
    return f"fresh to {freshness['amount']} {freshness['unit']}"


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body[name]
    if not isinstance(value, str) or not value:
        raise DefinitionBroken(f"{name}: {value!r} is not a text.")
    return value


def _texts(body: Mapping[str, Any], name: str) -> Mapping[str, str]:
    return {str(key): str(value) for key, value in (body.get(name) or {}).items()}
