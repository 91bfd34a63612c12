"""The hook: the gateway in an Airflow connection of type `freshtable`."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseHook

from freshtable_airflow.address import GatewayAddress
from freshtable_airflow.conversation import close_session, open_session
from freshtable_airflow.errors import FreshtableError
from freshtable_airflow.request import RunAddress
from freshtable_airflow.transport import AsyncGateway, Gateway

DEFAULT_CONNECTION = "freshtable_default"


class FreshtableHook(BaseHook):
    """The gateway in a connection, where host is the gateway's URL and password its token."""

    conn_name_attr = "freshtable_conn_id"
    default_conn_name = DEFAULT_CONNECTION
    conn_type = "freshtable"
    hook_name = "Freshtable gateway"

    def __init__(self, freshtable_conn_id: str = DEFAULT_CONNECTION, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.freshtable_conn_id = freshtable_conn_id

    @property
    def address(self) -> GatewayAddress:
        """The gateway's address according to the connection."""
        return GatewayAddress.of_connection(self.get_connection(self.freshtable_conn_id))

    def get_conn(self) -> Gateway:
        """Return a client of the gateway, to be used in a `with` statement."""
        return Gateway(self.address)

    async def aget_conn(self) -> AsyncGateway:
        """Return an asynchronous client of the gateway, to be used in an `async with` statement."""
        return AsyncGateway(GatewayAddress.of_connection(await self.aget_connection(self.freshtable_conn_id)))

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the gateway responds and accepts the token, with a message for users."""
        try:
            with self.get_conn() as gateway:
                session = gateway.hold(open_session({}))
                gateway.hold(close_session(RunAddress(table="", handle="", session=session, attempt=0)))
        except FreshtableError as error:
            return False, str(error)
        return True, f"The gateway at {self.address.url} answers and accepts the token."
