"""The machine that `freshtable doctor` looks at: its configuration, its environment and its clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from mt_core.client.home import callable_url, token_in, url_in
from mt_core.clock import Clock
from mt_core.config import Config

TOKEN_VARIABLE = "FRESHTABLE_TOKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a gateway would start with here."""

    config: Config
    environ: Mapping[str, str] = field(repr=False)
    clock: Clock
    config_file: Path | None = None

    @property
    def start(self) -> str:
        """The command that starts a gateway with these settings."""
        settings = "" if self.config_file is None else f" -c {quote(str(self.config_file))}"
        return f"freshtable gateway{settings} --home {quote(str(self.config.home))}"

    @property
    def host(self) -> str:
        return self.config.text("sql-gateway.endpoint.rest.address")

    @property
    def port(self) -> int:
        return self.config.integer("sql-gateway.endpoint.rest.port")

    @property
    def configured_url(self) -> str:
        """The URL at which a client of this machine calls a gateway with this configuration."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return callable_url(f"http://{host}:{self.port}")

    @property
    def gateway_url(self) -> str:
        """The URL of the gateway that holds the home, else the configured one."""
        return url_in(self.config.home) or self.configured_url

    @property
    def token(self) -> str | None:
        """The token for the gateway: that of the environment, the one that it generated,
        or one of the configuration.

        One of the configuration is for the gateway that holds the home alone:
        at the configured address another user's program may listen.
        """
        given = self.environ.get(TOKEN_VARIABLE) or token_in(self.config.home, self.gateway_url)
        if given or url_in(self.config.home) is None:
            return given
        return next((token.secret.reveal() for token in self.config.tokens if token.secret), None)
