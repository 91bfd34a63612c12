"""Ports of this machine for servers that start later."""

from __future__ import annotations

import secrets
import socket

# Below the ports that kernels give to connections, which could take one before its server listens.
_RANGE = range(20_000, 32_000)


def free_ports(number: int) -> list[int]:
    """Return *number* ports of loopback at which nothing listens now."""
    ports: list[int] = []
    while len(ports) < number:
        port = secrets.choice(_RANGE)
        with socket.socket() as each:
            if port not in ports and each.connect_ex(("127.0.0.1", port)) != 0:
                ports.append(port)
    return ports


def free_port() -> int:
    """Return one such port."""
    return free_ports(1)[0]
