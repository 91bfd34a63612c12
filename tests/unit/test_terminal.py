"""The pseudo terminal that tests of interactive programs use."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest

from tests.support.terminal import CTRL_C, Terminal

SLEEPER = "import time; print('ready', flush=True); time.sleep(60)"


@pytest.fixture
def ignored_interrupt() -> Iterator[None]:
    """Ctrl-C is ignored here, as in whatever a shell runs in its background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ignored_interrupt")
def test_ctrl_c_reaches_a_program_even_if_this_process_ignores_it() -> None:
    with Terminal([sys.executable, "-c", SLEEPER], os.environ) as terminal:
        terminal.wait_for("ready")
        terminal.type(CTRL_C)

        code = terminal.wait_end(10.0)

    assert code == -signal.SIGINT
    assert "KeyboardInterrupt" in terminal.shown
