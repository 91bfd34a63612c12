"""Calls from the JVM to Python: the server that a stream's foreachBatch needs, with a token.

PySpark starts that server at the first foreachBatch without one, and py4j's client in the JVM loses its
own token when it is given the server's port: whoever can reach the port could then call the objects that
Python has lent the JVM. Here the server starts together with the JVM, before there is anything to call,
and the client is replaced by one with the token of the JVM's own server. PySpark does not start a
server where there is one.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaObject

# As py4j's ClientServer creates its client.
_CLEAN_AFTER_S = 30


def serve_callbacks(gateway: Any) -> None:
    """Start the server that the JVM of *gateway* calls, and let the JVM present the token
    with which Python calls it.
    """
    parameters = gateway.python_parameters
    parameters.auth_token = gateway.gateway_parameters.auth_token
    parameters.port = 0
    parameters.daemonize = parameters.daemonize_connections = True
    gateway.start_callback_server(parameters)
    server = gateway._callback_server
    server.port = gateway._python_proxy_port = server.get_listening_port()
    java = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getGateway()
    _replace_client(gateway.jvm, java, server.port, parameters.auth_token)


def _replace_client(jvm: Any, java: Any, port: int, token: str) -> None:
    """Give *java*, py4j's entry in the JVM, a client with *token*; it has no method that takes one."""
    client = java.getCallbackClient()
    replaced = jvm.py4j.PythonClient(
        java,
        None,
        port,
        client.getAddress(),
        _CLEAN_AFTER_S,
        jvm.java.util.concurrent.TimeUnit.SECONDS,
        jvm.javax.net.SocketFactory.getDefault(),
        client.getJavaServer(),
        True,
        client.getReadTimeout(),
        token,
    )
    field = java.getClass().getDeclaredField("cbClient")
    field.setAccessible(True)
    field.set(java, replaced)
    client.shutdown()
