"""The plug-in that registers Freshtable's timetables in each component of Airflow."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from freshtable_airflow.timetable import ExpressionTimetable, GridTimetable


class FreshtablePlugin(AirflowPlugin):
    """Registered by the entry point group `airflow.plugins`."""

    name = "freshtable"
    # The base class declares a plain list.
    timetables = [ExpressionTimetable, GridTimetable]  # noqa: RUF012
