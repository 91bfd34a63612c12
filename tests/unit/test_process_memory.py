"""Another process of the same user cannot read the gateway's environment or memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mt_core.app import process_memory

# Root may read everything, so both are of another user then. The kernel closes a process that changes its user: it is opened again.
_AS_USER = """
import os
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
"""
_GATEWAY = f"""
{Path(process_memory.__file__).read_text()}
{_AS_USER}
ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
CLOSE
print("waits", flush=True)
input()
"""
_OTHER = f"{_AS_USER}\nimport sys\nopen(f'/proc/{{sys.argv[1]}}/environ').read()\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this")
@pytest.mark.parametrize(("close", "error"), [("", b""), ("close_process_memory()", b"PermissionError")])
def test_a_process_of_the_same_user_reads_no_environment_that_is_closed(close: str, error: bytes) -> None:
    code = _GATEWAY.replace("CLOSE", close)
    gateway = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert gateway.stdout is not None
    try:
        assert gateway.stdout.readline() == b"waits\n"
        other = subprocess.run([sys.executable, "-c", _OTHER, str(gateway.pid)], capture_output=True, check=False)
    finally:
        gateway.communicate(b"\n")

    assert other.stderr.rpartition(b"\n")[0].rpartition(b"\n")[2].partition(b":")[0] == error
