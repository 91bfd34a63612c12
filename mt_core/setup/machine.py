"""The machine that `freshtable doctor` checks: its configuration, environment and clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from mt_core.client.home import callable_url, token_in, url_in
from mt_core.clock import Clock
from mt_core.config import Config

TOKEN_VARIABLE = "FRESHTABLE_TOKEN"
LAKE = "spark.sql.catalog.lake."


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The inputs with which a gateway would start on this machine."""

    config: Config
    environ: Mapping[str, str] = field(repr=False)
    clock: Clock
    config_file: Path | None = None

    @property
    def spark(self) -> Mapping[str, str]:
        """The settings of Spark, those of the catalog `lake` among them."""
        options = {f"{LAKE}{key}": value for key, value in self.config.catalog_options.items()}
        return {**options, **self.config.spark}

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
        """The URL at which local clients call a gateway with this configuration."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return callable_url(f"http://{host}:{self.port}")

    @property
    def gateway_url(self) -> str:
        """The URL of the gateway that owns the home or, if there is none, the configured URL."""
        return url_in(self.config.home) or self.configured_url

    @property
    def token(self) -> str | None:
        """The token for the gateway, from the environment, the home folder or the configuration, or None.

        A configured token is used only for the gateway that owns the home, because another user's program may
        listen at the configured address.
        """
        token_found = self.environ.get(TOKEN_VARIABLE) or token_in(self.config.home, self.gateway_url)
        if token_found or url_in(self.config.home) is None:
            return token_found
        return next((token.secret.reveal() for token in self.config.tokens if token.secret), None)
