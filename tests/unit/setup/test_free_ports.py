from __future__ import annotations

import socket
from pathlib import Path

import pytest

from mt_core.demo.free_ports import free_port, free_ports

RANGE_OF_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_free_ports_are_distinct_and_nothing_listens_there() -> None:
    ports = free_ports(20)

    assert len(set(ports)) == 20
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass


@pytest.mark.skipif(not RANGE_OF_CONNECTIONS.exists(), reason="the kernel does not say its range")
def test_a_free_port_is_none_that_the_kernel_gives_to_a_connection() -> None:
    """A connection took the port of a server that had not started yet."""
    least, most = map(int, RANGE_OF_CONNECTIONS.read_text().split())

    assert all(not least <= free_port() <= most for _ in range(50))
