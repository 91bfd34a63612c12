"""Refreshes with states that are killed at each step, beside rollbacks, other writers and upkeep.

Whatever happened, the table has the rows of its query after the next refresh, and each of its states has the
groups of its stage. States without a name are never read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from mt_core.errors import EngineError
from mt_core.model.run import RefreshRun, RunStatus
from mt_core.spark.states import state_tables
from mt_core.spark.states.kept_states import KeptStates
from mt_core.spark.states.state_tables import StateTable
from tests.depth import DEPTH, dice
from tests.integration.maintained_world import FORMATS
from tests.integration.refresh_world import RefreshWorld
from tests.integration.refresh_world import world as world
from tests.integration.staged_world import Staged, check_states
from tests.support.queries_with_stages import QUERIES_WITH_STAGES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600 * DEPTH)]

QUERY = "full join of states"
"""A query with two stages, of different sources."""
TABLE = "mt_0"
STEPS = ("decide", "write", "staged", "publish: read", "publish: commit", "published", "end")
# A function, the number of its call in a run, and whether the run dies before or after it.
CALLS = (
    ("write of all", 1, "before"),
    ("write", 1, "before"),
    ("commit", 1, "before"),
    ("commit", 1, "after"),
    ("write", 2, "before"),
    ("commit", 2, "before"),
    ("commit", 2, "after"),
    ("write of all", 1, "after"),
)


class Killed(BaseException):
    """The process of a run has ended."""


@dataclass(slots=True)
class Killer:
    """Kills the process of a run at a call. *at* has the calls that are counted."""

    monkeypatch: pytest.MonkeyPatch
    at: tuple[str, int, str] | None = None
    calls: int = 0

    def watch(self) -> None:
        for name, holder, function in (
            ("write of all", KeptStates, "write"),
            ("write", StateTable, "_write"),
            ("commit", state_tables, "commit"),
        ):
            watched = partial(self._call, name, getattr(holder, function))
            self.monkeypatch.setattr(holder, function, _method(watched))

    def _call(self, name: str, call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        self.calls += self.at is not None and name == self.at[0]
        at = (name, self.calls)
        if at == (self.at or ())[:2] and self.at is not None and self.at[2] == "before":
            self._kill()
        answer = call(*given, **named)
        if at == (self.at or ())[:2]:
            self._kill()
        return answer

    def _kill(self) -> None:
        self.at, self.calls = None, 0
        raise Killed


def _method(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function, which unlike a partial object becomes a method of a class."""
    return lambda *given, **named: call(*given, **named)


@dataclass(slots=True)
class Story:
    """A table with two states, whose runs can be lost."""

    staged: Staged
    killer: Killer
    copies: int = 1
    _tables: list[str] = field(default_factory=list)

    @classmethod
    def begin(
        cls, world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, *, tiny: bool, copies: int = 1
    ) -> Story:
        if not tiny:
            monkeypatch.setattr("mt_core.spark.states.tiny_states.MOST_TINY", 0)
        killer = Killer(monkeypatch)
        killer.watch()
        story = cls(Staged(world, dice(3), FORMATS[1]), killer, copies)
        [query] = [each for each in QUERIES_WITH_STAGES if each.name == QUERY]
        story.staged.create([query] * copies)
        story.check()
        return story

    @property
    def world(self) -> RefreshWorld:
        return self.staged.world

    def change(self) -> None:
        """Change both sources."""
        self.world.spark(
            "UPDATE f SET a = coalesce(a, 0) + 1 WHERE pmod(hash(id, g), 2) = 0",
            "INSERT INTO f (id, k, a) VALUES (1, 7, 2), (2, NULL, NULL)",
            "DELETE FROM o WHERE pmod(hash(p, name), 4) = 0",
            "INSERT INTO o (k, rate) VALUES (7, 1.25), (1, 2)",
        )

    def refresh(self, name: str = TABLE) -> RefreshRun:
        """Refresh a table and check it."""
        run = self.world.tick(name)
        self.check(name)
        return run

    def check(self, name: str = TABLE) -> None:
        self.staged.check(name)
        assert check_states(self.world, name) in (0, 2)

    def die(self, run: Callable[[], object]) -> None:
        """Let the process of a run die in it."""
        with pytest.raises(Killed):
            run()
        self.world.clock.advance(timedelta(hours=1))
        assert self.world.ledger.recover() == 1

    def refs(self) -> dict[str, set[str]]:
        """Return the branches of each state table."""
        space = f"lake.{self.world.namespace}"
        tables = [str(row[1]) for row in self.world.plain(f"SHOW TABLES IN {space}")]
        return {
            name: {str(row[0]) for row in self.world.plain(f"SELECT name FROM {space}.{name}.refs")}
            for name in tables
            if name.startswith("_freshtable_state_")
        }


def kills() -> Iterator[Any]:
    """Yield each step and call at which a run dies."""
    for tiny in (True, False):
        for step in STEPS:
            yield pytest.param(tiny, step, id=f"{'tiny' if tiny else 'table'}, {step}")
    for call in CALLS:
        yield pytest.param(False, call, id=f"table, {' '.join(map(str, call))}")


def check_killed(story: Story, at: str | tuple[str, int, str]) -> None:
    """Kill a run, and let another attempt end it while the sources change; then refresh again."""
    world = story.world
    story.change()
    run_id = world.request_tick(TABLE, world.next_point())

    def die() -> None:
        raise Killed

    if isinstance(at, str):
        story.die(partial(world.work, before=at, do=die))
    else:
        story.killer.at = at
        story.die(world.work)
    story.world.spark("DELETE FROM f WHERE k = 7")
    world.work()

    run = world.run(run_id)
    assert (run.status, run.attempt) == (RunStatus.SUCCEEDED, 2)
    is_published = at in ("published", "end")
    assert run.strategy == "stages", run.reason
    if not is_published:
        story.check()
    story.change()
    assert story.refresh().strategy == "stages"
    assert [names for names in story.refs().values() if len(names) > 2] == []


@pytest.mark.slow
def test_a_run_that_dies_between_its_states_and_its_rows_leaves_no_state(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_killed(Story.begin(world, monkeypatch, tiny=False), ("write of all", 1, "after"))


@pytest.mark.kills
@pytest.mark.parametrize(("tiny", "at"), list(kills()))
def test_a_run_that_dies_at_any_step_leaves_the_rows_and_states_of_the_last_publish(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, tiny: bool, at: str | tuple[str, int, str]
) -> None:
    check_killed(Story.begin(world, monkeypatch, tiny=tiny), at)


@pytest.mark.kills
@pytest.mark.parametrize("tiny", [True, False])
@pytest.mark.parametrize("step", ["staged", "publish: commit"])
def test_a_run_that_comes_late_publishes_nothing(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, tiny: bool, step: str
) -> None:
    story = Story.begin(world, monkeypatch, tiny=tiny)
    story.change()
    run_id = world.request_tick(TABLE, world.next_point())
    late = world.attempt()
    while next(late) != step:
        pass
    world.clock.advance(timedelta(hours=1))
    assert world.ledger.recover() == 1
    story.world.spark("DELETE FROM f WHERE k = 7")
    world.work()

    list(late)

    assert (world.run(run_id).status, world.run(run_id).attempt) == (RunStatus.SUCCEEDED, 2)
    story.check()
    story.change()
    assert story.refresh().strategy == "stages"


@pytest.mark.kills
@pytest.mark.parametrize("tiny", [True, False])
def test_a_table_that_is_rolled_back_has_the_states_that_its_snapshot_names(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, tiny: bool
) -> None:
    story = Story.begin(world, monkeypatch, tiny=tiny)
    story.change()
    old = story.refresh().snapshot_id
    story.change()
    story.refresh()

    world.spark(f"CALL lake.system.rollback_to_snapshot('{world.namespace}.{TABLE}', {old})")
    story.change()
    run = story.refresh()

    # There is one property for all snapshots, and it names the last publish.
    assert run.strategy == ("recompute" if tiny else "stages"), run.reason
    story.change()
    assert story.refresh().strategy == "stages"


@pytest.mark.kills
@pytest.mark.parametrize("tiny", [True, False])
def test_after_another_writer_all_rows_and_states_are_computed_again(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, tiny: bool
) -> None:
    story = Story.begin(world, monkeypatch, tiny=tiny)
    world.spark(f"INSERT INTO {TABLE} (k) VALUES (99)")
    story.change()

    assert story.refresh().strategy == "recompute"
    story.change()
    assert story.refresh().strategy == "stages"


@pytest.mark.kills
@pytest.mark.parametrize("tiny", [True, False])
def test_upkeep_leaves_the_states_of_the_rows(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch, tiny: bool
) -> None:
    story = Story.begin(world, monkeypatch, tiny=tiny)
    for _ in range(3):
        story.change()
        story.refresh()
    identifier, engine = world.table(TABLE).identifier, world.engine

    engine.housekeeping.expire(identifier, datetime.now(UTC) + timedelta(seconds=1), ())
    engine.housekeeping.remove_orphans(identifier, datetime.now(UTC) + timedelta(seconds=1))
    assert check_states(world, TABLE) == 2
    for name in story.refs():
        world.spark(
            f"CALL lake.system.rewrite_data_files(table => '{world.namespace}.{name}', "
            "options => map('rewrite-all', 'true'))"
        )
    story.change()

    assert story.refresh().strategy == "stages"
    engine.housekeeping.expire(identifier, datetime.now(UTC) + timedelta(seconds=1), ())
    story.change()
    assert story.refresh().strategy == "stages"


@pytest.mark.kills
def test_tables_with_equal_stages_have_states_of_their_own(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story.begin(world, monkeypatch, tiny=False, copies=2)
    story.change()
    assert story.refresh("mt_0").strategy == "stages"
    story.change()
    assert [story.refresh(name).strategy for name in ("mt_1", "mt_0")] == ["stages", "stages"]
    assert len(story.refs()) == 4

    world.sql("DROP MATERIALIZED TABLE mt_0")
    story.change()

    assert story.refresh("mt_1").strategy == "stages"
    assert len(story.refs()) == 2


@pytest.mark.kills
def test_a_table_whose_states_cannot_be_written_is_refreshed_without_them(
    world: RefreshWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story.begin(world, monkeypatch, tiny=False)
    with monkeypatch.context() as patch:
        patch.setattr(StateTable, "_write", _refused)
        for _ in range(3):
            story.change()
            assert story.refresh().strategy == "recompute"
    story.change()
    story.refresh()
    story.change()
    story.refresh()
    story.change()

    assert story.refresh().strategy == "stages"


def _refused(*_given: object, **_named: object) -> str:
    raise EngineError("You may not create a table.")
