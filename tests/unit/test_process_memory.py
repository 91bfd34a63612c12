"""Another process of the same user cannot read the gateway's environment or memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.other_process import as_a_user, environment_refusal

_GATEWAY = (
    "from mt_core.app.process_memory import close_process_memory\nCLOSE\n"
    "print('waits', flush=True)\ninput()\n"
)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this")
@pytest.mark.parametrize(("close", "error"), [("", ""), ("close_process_memory()", "PermissionError")])
def test_a_process_of_the_same_user_reads_no_environment_that_is_closed(close: str, error: str) -> None:
    code = _GATEWAY.replace("CLOSE", close)
    gateway = subprocess.Popen(as_a_user(["-c", code]), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert gateway.stdout is not None
    try:
        assert gateway.stdout.readline() == b"waits\n"
        refusal = environment_refusal(gateway.pid)
    finally:
        gateway.communicate(b"\n")

    assert refusal == error
