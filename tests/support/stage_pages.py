"""Which queries are maintained by stages, as a page: from their recorded plans alone.

`python -m tests.support.stage_pages` writes the page again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mt_core.base.plural import plural
from mt_core.incremental.changes import ChangeKind
from mt_core.incremental.stages.stage_plan import StagePlan, over
from tests.support.maintained_queries import QUERIES
from tests.support.shape_strategies import ROWS, readings_of, stages, strategy_of
from tests.support.tpc_plans import FOLDER, recorded_queries
from tests.support.tpc_strategies import TITLES, Forecasts, unlimited_forecasts

PAGE = FOLDER / "stages.md"
HEAD = """\
# Which queries are maintained by stages

`python -m tests.support.stage_pages` writes this page from the recorded plans. Each query is maintained by
stages or without states, never by both. Each line of *states* is an aggregate that is kept, with the sources
below it, how often the query uses it if more than once, and how many values of scalar subqueries its rows
depend on. *Rest* are the sources that the operators above read. *Keys* are the columns by which the rows of
changed groups can be replaced. The queries of TPC-H and TPC-DS are without the LIMIT at their end; *other
way* is how changed rows of all sources at once are applied without states, and *why* there are none. A query
of which the change of the *rows* is computed has no states, unless scalar subqueries in the rows have some.
"""


def page() -> str:
    """Return the page, as Markdown."""
    return "\n".join([HEAD, *(line for suite in TITLES for line in _suite(suite)), *_shapes()])


def _suite(suite: str) -> Iterator[str]:
    queries, forecasts = recorded_queries(suite), unlimited_forecasts(suite)
    count = sum(each.stages is not None for each in forecasts.values())
    yield f"## {TITLES[suite]}\n"
    yield f"{count} of {len(queries)} queries have stages.\n"
    yield from _head("query | states | rest | keys | other way | why")
    for name, each in forecasts.items():
        names = [column.name for column in queries[name].columns]
        way = each.at_once(ChangeKind.ROWS).way
        if each.stages is not None:
            yield _row(name, *_stages(each.stages, queries[name].readings, names), "", "")
        elif (blocks := each.at_once(ChangeKind.ROWS).rows) is not None:
            yield _row(name, over("rows", blocks), "", "", way, _why(each))
        else:
            yield _row(name, "", "", "", way, _why(each))
    yield ""


def _why(forecasts: Forecasts) -> str:
    shaped = forecasts.shaped
    if isinstance(shaped, str):
        return shaped
    plan = shaped.shape.stages
    if isinstance(plan, str):
        return plan
    return f"the rest would read {_names(shaped.readings[number] for number in sorted(plan.above))}"


def _shapes() -> Iterator[str]:
    compiled = {query.name: stages(query.name) for query in QUERIES}
    count = sum(not isinstance(each, str) for each in compiled.values())
    yield "## Other shapes\n"
    yield f"{count} of {len(compiled)} queries of `maintained_queries` have stages.\n"
    yield from _head("query | states | rest | keys | why none")
    for name, plan in compiled.items():
        if not isinstance(plan, str):
            yield _row(name, *_stages(plan, readings_of(name)), "")
            continue
        blocks = strategy_of(name, **dict.fromkeys(readings_of(name), ROWS)).rows
        yield _row(name, "" if blocks is None else over("rows", blocks), "", "", plan)
    yield ""


def _stages(plan: StagePlan, readings: Sequence[str], columns: Sequence[str] = ()) -> Iterator[str]:
    """Yield the states of a plan, what its rest reads, and its keys."""
    states = [
        f"{stage.words} ({_names(readings[number] for number in sorted(stage.readings))})"
        + (f", {len(stage.places)} times" if len(stage.places) > 1 else "")
        + (f", {len(stage.values)} {plural(len(stage.values), 'value')} below it" if stage.values else "")
        for stage in plan.stages
    ]
    if plan.rows is not None:
        sources = _names(readings[number] for number in sorted(plan.rows.tables()))
        count = f"{len(plan.values)} {plural(len(plan.values), 'value')}"
        states.append(f"{over('rows', plan.rows)} ({sources}), {count} in them")
    yield "<br>".join(states)
    yield _names(readings[number] for number in sorted(plan.rest))
    keys = plan.row_keys or ()
    yield ", ".join(columns[key] if columns else str(key) for key in keys)


def _names(sources: Iterator[str]) -> str:
    return ", ".join(dict.fromkeys(sources))


def _head(columns: str) -> Iterator[str]:
    yield f"| {columns} |"
    yield f"|{'---|' * (columns.count('|') + 1)}"


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def write() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
