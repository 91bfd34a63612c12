"""How another process of the same user sees a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

# Root first gives up the capabilities with which it can read every process. PR_CAPBSET_DROP of
# CAP_SYS_PTRACE, CAP_SYS_ADMIN and CAP_PERFMON takes effect with the next program. Other users have none of
# these.
_AS_A_USER = """
import ctypes, os, sys
for capability in (19, 21, 38):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
_READ = "import sys\nprint(len(open(f'/proc/{sys.argv[1]}/environ').read()))"


def as_a_user(arguments: Sequence[str]) -> list[str]:
    """Return a command that runs Python with *arguments* and few rights.

    It may read only what the processes of its user show.
    """
    return [sys.executable, "-c", _AS_A_USER, *arguments]


def environment_refusal(pid: int) -> str:
    """Return the kernel's error for reading the environment of *pid* from a process started `as_a_user`.

    The result is empty if the environment is readable.
    """
    other = subprocess.run(as_a_user(["-c", _READ, str(pid)]), capture_output=True, text=True, check=False)
    return "" if other.returncode == 0 else other.stderr.splitlines()[-1].partition(":")[0]
