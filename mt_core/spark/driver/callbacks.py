"""The authenticated callback server, through which the JVM calls Python in foreachBatch.

PySpark starts this server without a token at the first foreachBatch, and py4j's client in the JVM loses its
token when its port is set. Any process that reaches the port could then call the Python objects that the
JVM refers to. The server is therefore started together with the JVM, before any object is exported, and
py4j's client is replaced by one with the token of the JVM's own server. PySpark uses a server that is
already running.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaObject

# The default that py4j's ClientServer passes to its client.
_CLEAN_AFTER_S = 30


def serve_callbacks(gateway: Any) -> None:
    """Start the callback server of *gateway*. The JVM must present the token that Python uses."""
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
    """Replace the client of *java*, py4j's entry point in the JVM, with one that has *token*.

    This uses reflection, because py4j has no setter for a client with a token.
    """
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
