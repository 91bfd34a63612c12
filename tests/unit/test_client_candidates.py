from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from queue import SimpleQueue

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from mt_core.errors import GatewayError
from mt_core.terminal.editor.candidates import Candidates, Place
from mt_core.terminal.editor.completer import SqlCompleter, place_at

WAIT_S = 60.0


class Gateway:
    """Answers with `words` each question that `allow` lets through; remembers all."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words, self.asked = words, list[tuple[str, int]]()
        self.entered, self._allowed = threading.Semaphore(0), threading.Semaphore(0)
        self.refusal: Exception | None = None

    def ask(self, statement: str, position: int) -> Sequence[str]:
        self.asked.append((statement, position))
        self.entered.release()
        assert self._allowed.acquire(timeout=WAIT_S)
        if self.refusal is not None:
            raise self.refusal
        return self.words

    def allow(self) -> None:
        self._allowed.release()


@pytest.fixture
def gateway() -> Gateway:
    return Gateway(["daily", "`dull days`", "orders"])


@pytest.fixture
def answered() -> SimpleQueue[Place]:
    return SimpleQueue()


@pytest.fixture
def candidates(gateway: Gateway, answered: SimpleQueue[Place]) -> Iterator[Candidates]:
    made = Candidates(gateway.ask, answered.put)
    yield made
    made.close()
    gateway.allow()


def place(begun: str, before: str = "SELECT * FROM ") -> Place:
    return Place(before=before, begun=begun, after="")


def test_what_is_not_known_is_asked_for_and_the_answer_serves_further_letters(
    gateway: Gateway, candidates: Candidates, answered: SimpleQueue[Place]
) -> None:
    unknown = candidates.at(place("d"))
    gateway.allow()

    assert answered.get(timeout=WAIT_S) == place("d")
    assert unknown is None
    assert candidates.at(place("d")) == ["daily", "`dull days`"]
    assert candidates.at(place("DU")) == ["`dull days`"]
    assert gateway.asked == [("SELECT * FROM d", 15)]


def test_a_late_answer_is_dropped_and_only_the_last_question_is_asked_next(
    gateway: Gateway, candidates: Candidates, answered: SimpleQueue[Place]
) -> None:
    candidates.at(place("a"))
    assert gateway.entered.acquire(timeout=WAIT_S)
    candidates.at(place("b", before="SELECT "))
    candidates.at(place("o"))
    gateway.allow()
    gateway.allow()

    assert answered.get(timeout=WAIT_S) == place("o")
    assert [statement for statement, _ in gateway.asked] == ["SELECT * FROM a", "SELECT * FROM o"]
    assert candidates.at(place("o")) == ["orders"]
    assert answered.empty()


def test_a_gateway_that_fails_has_no_candidates(
    gateway: Gateway, candidates: Candidates, answered: SimpleQueue[Place]
) -> None:
    gateway.refusal = GatewayError("There is no gateway.")
    candidates.at(place("d"))
    gateway.allow()

    assert answered.get(timeout=WAIT_S) == place("d")
    assert candidates.at(place("d")) == []


def test_what_was_known_before_a_statement_is_asked_again(
    gateway: Gateway, candidates: Candidates, answered: SimpleQueue[Place]
) -> None:
    candidates.at(place("d"))
    gateway.allow()
    answered.get(timeout=WAIT_S)

    candidates.forget()

    assert candidates.at(place("d")) is None


def texts(completer: SqlCompleter, typed: str) -> list[str]:
    return [each.text for each in completer.get_completions(Document(typed), CompleteEvent())]


def test_keywords_are_there_at_once_and_the_answer_of_the_gateway_takes_their_place(
    gateway: Gateway, candidates: Candidates, answered: SimpleQueue[Place]
) -> None:
    gateway.words = ["DESCRIBE", "DROP TABLE"]
    completer = SqlCompleter(candidates)

    at_once = texts(completer, "D")
    gateway.allow()
    answered.get(timeout=WAIT_S)

    assert {"DESCRIBE", "DROP", "DISTINCT"} <= set(at_once)
    assert texts(completer, "D") == ["DESCRIBE", "DROP TABLE"]
    assert texts(completer, "DR") == ["DROP TABLE"]


def test_keywords_are_offered_where_the_gateway_has_no_word(
    gateway: Gateway, candidates: Candidates, answered: SimpleQueue[Place]
) -> None:
    gateway.words = []
    completer = SqlCompleter(candidates)
    texts(completer, "CREATE FUNCTION f AS 'm.f' LANG")
    gateway.allow()
    answered.get(timeout=WAIT_S)

    assert texts(completer, "CREATE FUNCTION f AS 'm.f' LANG") == ["LANGUAGE"]


def test_of_many_names_the_first_ones_are_offered_and_further_letters_offer_others(
    gateway: Gateway, candidates: Candidates, answered: SimpleQueue[Place]
) -> None:
    gateway.words = [f"t_{number:03}" for number in range(1000)]
    completer = SqlCompleter(candidates)
    texts(completer, "SELECT * FROM t")
    gateway.allow()
    answered.get(timeout=WAIT_S)

    assert texts(completer, "SELECT * FROM t") == gateway.words[:100]
    assert texts(completer, "SELECT * FROM t_98") == gateway.words[980:990]


def test_commands_are_completed_without_the_gateway(gateway: Gateway, candidates: Candidates) -> None:
    completer = SqlCompleter(candidates)

    assert texts(completer, "\\") == [
        *(
            r"\d",
            r"\l",
            r"\dt",
            r"\df",
            r"\refreshes",
            r"\why",
            r"\lineage",
            r"\watch",
            r"\jobs",
            r"\fg",
            r"\timing",
            r"\set",
            r"\e",
        )
    ]
    assert texts(completer, r"\wh") == [r"\why"]
    assert texts(completer, r"\set edi") == []
    assert gateway.asked == []


def test_the_argument_of_a_command_is_a_table() -> None:
    assert place_at(Document(r"\why lake.sh")) == Place(before="DESCRIBE ", begun="lake.sh", after="")
    assert place_at(Document(r"\timing o")) is None


def test_the_place_is_the_name_before_the_cursor() -> None:
    typed = "SELECT am FROM lake.`a b`"

    assert place_at(Document(typed, len("SELECT am"))) == Place(
        before="SELECT ", begun="am", after=" FROM lake.`a b`"
    )
    assert place_at(Document(typed)) == Place(before="SELECT am FROM ", begun="lake.`a b`", after="")
    assert place_at(Document("SET 'table.exec.mini-b")) == Place(
        before="SET '", begun="table.exec.mini-b", after=""
    )
    assert place_at(Document("SELECT 'a' || 'it''s', am")) == Place(
        before="SELECT 'a' || 'it''s', ", begun="am", after=""
    )
    assert place_at(Document("SELECT 1; S")) == Place(before="SELECT 1; ", begun="S", after="")
    assert [place_at(Document(text)) for text in ("", "SELECT 1;", "SELECT 1; ")] == [None] * 3
