"""A form that is sent twice acts once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mt_core.errors import TableBusy
from mt_core.gateway.page.actions.api import SAME_FOR_S, Submissions
from mt_core.gateway.page.actions.forms import DONE, Done, Outcome

DONE_ONCE = Outcome.of("/tables/t", Done.SUSPENDED)


def test_a_form_that_is_sent_again_while_its_work_is_done_waits_for_the_same_outcome() -> None:
    submissions, begun, go_on, works = Submissions(), threading.Event(), threading.Event(), list[int]()

    def work() -> Outcome:
        works.append(1)
        begun.set()
        assert go_on.wait(30)
        return DONE_ONCE

    with ThreadPoolExecutor() as pool:
        first = pool.submit(submissions.once, "key", work)
        assert begun.wait(30)
        second = pool.submit(submissions.once, "key", work)
        go_on.set()

        assert first.result() is second.result() is DONE_ONCE
    assert works == [1]


def test_a_form_is_another_request_after_a_while_and_with_another_key() -> None:
    time, works = [0.0], list[str]()
    submissions = Submissions(lambda: time[0])

    def work() -> Outcome:
        works.append("")
        return DONE_ONCE

    for key, at in (("a", 0.0), ("a", SAME_FOR_S - 1), ("b", SAME_FOR_S - 1), ("a", SAME_FOR_S)):
        time[0] = at
        submissions.once(key, work)

    assert len(works) == 3


def test_a_form_that_failed_may_be_sent_again() -> None:
    submissions = Submissions()

    def fail() -> Outcome:
        raise TableBusy("It is being altered.", table="t")

    with pytest.raises(TableBusy, match="being altered"):
        submissions.once("key", fail)

    assert submissions.once("key", lambda: DONE_ONCE) is DONE_ONCE


def test_every_outcome_has_words_and_may_be_in_an_address() -> None:
    assert all(each.words.endswith(".") for each in Done)
    assert DONE.schema["enum"] == [each.value for each in Done]
