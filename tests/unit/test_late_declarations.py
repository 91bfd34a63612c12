"""Functions without a declaration are read in the background, each apart from the others."""

from __future__ import annotations

import threading
from dataclasses import replace

from mt_core.errors import DefinitionInvalid
from mt_core.model.function import CreatedFunction, FunctionLanguage, PythonDeclaration, PythonForm
from mt_core.spark.driver.session_functions import FunctionLoading
from mt_core.spark.functions.late_declarations import AGAIN_S, LateDeclarations

DECLARED = PythonDeclaration(python="3.11", form=PythonForm.VALUE, name="f")
GOOD, BAD, HANGING = (
    CreatedFunction(name=name, language=FunctionLanguage.PYTHON, body="users.f")
    for name in ("good", "bad", "hanging")
)


class World:
    def __init__(self) -> None:
        self.now_s, self.kept, self.reads = 0.0, list[CreatedFunction](), list[str]()
        self.end = threading.Event()
        self.late = LateDeclarations(self.kept.append, lambda: self.now_s)

    def read(self, function: CreatedFunction) -> CreatedFunction:
        self.reads.append(function.name)
        if function is BAD:
            raise DefinitionInvalid("Function bad: module users ends the process that loads it.")
        if function is HANGING:
            self.end.wait()
        return replace(function, declared=DECLARED)


def test_a_function_that_can_be_read_is_kept_with_what_it_declares() -> None:
    world = World()

    world.late.read([GOOD], world.read)

    assert (world.kept, world.reads) == ([replace(GOOD, declared=DECLARED)], ["good"])


def test_one_that_fails_is_tried_again_after_a_while_and_says_why_meanwhile() -> None:
    world = World()

    world.late.read([BAD, GOOD], world.read)
    world.late.read([BAD], world.read)
    before = sorted(world.reads)
    world.now_s = AGAIN_S
    world.late.read([BAD], world.read)

    assert (before, world.reads.count("bad"), world.kept) == (
        ["bad", "good"],
        2,
        [replace(GOOD, declared=DECLARED)],
    )
    assert "ends the process that loads it" in str(world.late.reason(BAD))


def test_a_statement_waits_for_what_another_one_has_begun_to_read() -> None:
    world = World()
    world.late.read([HANGING], world.read, patience_s=0.0)
    before = world.late.reason(HANGING)
    threading.Timer(0.05, world.end.set).start()

    world.late.read([HANGING], world.read)

    assert isinstance(before, FunctionLoading)
    assert [each.name for each in world.kept] == ["hanging"]


def test_one_that_hangs_holds_up_neither_the_others_nor_a_statement_for_long() -> None:
    world = World()

    world.late.read([HANGING], world.read, patience_s=0.0)
    world.late.read([HANGING, GOOD], world.read, patience_s=0.5)

    assert [each.name for each in world.kept] == ["good"]
    assert "is being loaded for the first time since the gateway was upgraded" in str(
        world.late.reason(HANGING)
    )
    world.end.set()
