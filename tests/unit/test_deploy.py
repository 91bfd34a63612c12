"""deploy/: what can be known of the images and the compose file without a Docker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from mt_core.app.settings import check_exposure, scheduler_options
from mt_core.config import load_config
from scheduler_plugins.airflow.scheduler import AirflowScheduler
from scheduler_plugins.airflow.settings import read_settings

DEPLOY = Path(__file__).parents[2] / "deploy"
_VARIABLE = re.compile(r"\$\{(\w+):\?[^}]*\}")


def secrets_in(folder: Path) -> dict[str, str]:
    """Return what a first run of the script makes up."""
    shutil.copy(DEPLOY / "secrets.sh", folder)
    subprocess.run([folder / "secrets.sh"], check=True, capture_output=True)
    return dict(line.split("=", 1) for line in (folder / ".env").read_text().splitlines())


@pytest.fixture
def secrets(tmp_path: Path) -> dict[str, str]:
    return secrets_in(tmp_path)


@pytest.fixture
def compose(secrets: dict[str, str]) -> Any:
    """The compose file with the variables as Docker Compose puts them in."""
    text = (DEPLOY / "compose.yaml").read_text()
    return yaml.safe_load(_VARIABLE.sub(lambda found: secrets[found[1]], text))


def test_the_secrets_are_made_up_once_and_are_for_their_owner_alone(tmp_path: Path) -> None:
    first = secrets_in(tmp_path)
    again = secrets_in(tmp_path)
    (tmp_path / ".env").unlink()

    assert first == again
    assert not set(secrets_in(tmp_path).values()) & set(first.values())
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0
    assert len(first["AIRFLOW_FERNET_KEY"]) == 44


def test_no_secret_of_the_compose_file_is_known_to_others(secrets: dict[str, str]) -> None:
    text = (DEPLOY / "compose.yaml").read_text()

    assert set(_VARIABLE.findall(text)) == set(secrets)
    assert text.count("${") == len(_VARIABLE.findall(text))


def test_no_port_is_open_to_the_network(compose: Any) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]

    assert ports == ["127.0.0.1:8083:8083", "127.0.0.1:8080:8080"]


def test_airflow_may_append_to_its_file_of_passwords(compose: Any) -> None:
    airflow = compose["services"]["airflow"]

    (mounted,) = airflow["configs"]
    assert mounted["target"] == airflow["environment"]["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]
    assert mounted["mode"] & 0o060 == 0o060


def test_nobody_begins_before_postgresql_answers_by_tcp(compose: Any) -> None:
    assert "--host 127.0.0.1" in compose["services"]["postgres"]["healthcheck"]["test"][1]


def test_every_database_is_made_in_utf8(compose: Any) -> None:
    made = re.findall("CREATE DATABASE .*", compose["configs"]["databases"]["content"])

    assert len(made) == 3
    assert all("ENCODING 'UTF8' TEMPLATE template0;" in line for line in made)


def test_the_gateway_of_the_compose_file_has_a_configuration_that_it_can_read(
    compose: Any, secrets: dict[str, str]
) -> None:
    config = load_config(DEPLOY / "freshtable.yaml", compose["services"]["gateway"]["environment"])

    check_exposure(config)
    settings = read_settings(scheduler_options(config, AirflowScheduler))

    assert (settings.endpoint, settings.user_name) == ("http://airflow:8080", "freshtable")
    assert settings.password == secrets["AIRFLOW_FRESHTABLE_PASSWORD"]
    assert f'"freshtable": "{settings.password}"' in compose["configs"]["airflow-passwords"]["content"]
    assert (
        secrets["FRESHTABLE_AIRFLOW_TOKEN"]
        in compose["services"]["airflow"]["environment"]["AIRFLOW_CONN_FRESHTABLE_DEFAULT"]
    )


def test_the_image_starts_without_a_file_of_ones_own() -> None:
    dockerfile = (DEPLOY / "gateway" / "Dockerfile").read_text()

    check_exposure(load_config(DEPLOY / "gateway" / "freshtable.yaml", {}))

    assert "COPY deploy/gateway/freshtable.yaml /etc/freshtable.yaml" in dockerfile
    assert '"--config", "/etc/freshtable.yaml"]' in dockerfile


def test_the_image_contains_the_jars_of_spark_and_of_the_page() -> None:
    _, image = (DEPLOY / "gateway" / "Dockerfile").read_text().split("\nFROM ")[1:]

    variable, fetch = image.index("ENV FRESHTABLE_SPARK_JARS="), image.index("-m mt_core.spark.driver.jars")

    assert image.index("USER freshtable") < variable < fetch
    # Only the cache of the resolver, which has a second copy of each jar.
    assert re.findall(r"rm -rf \S*JARS\S*", image) == ['rm -rf "$FRESHTABLE_SPARK_JARS/cache"']


def test_the_images_are_built_by_a_docker_without_buildkit() -> None:
    dockerfiles = [(DEPLOY / image / "Dockerfile").read_text() for image in ("gateway", "airflow")]

    assert not [text for text in dockerfiles if "--chmod" in text or "--mount" in text or "<<" in text]
    assert os.access(DEPLOY / "gateway" / "healthy.sh", os.X_OK)


def test_a_stage_with_a_jdk_has_all_that_a_wheel_is_built_from_and_the_image_a_jre_alone() -> None:
    build, image = (DEPLOY / "gateway" / "Dockerfile").read_text().split("\nFROM ")[1:]
    listed = re.findall(
        r"^(?:include|recursive-include) (.*)$", (DEPLOY.parent / "MANIFEST.in").read_text(), re.M
    )
    files, every = set(listed[0].split()), {line.split()[0] for line in listed[1:]}
    # A folder is copied with the folders in it.
    folders = {name for name in every if not any(name.startswith(f"{other}/") for other in every)}

    copied = {name for line in re.findall(r"^COPY (.*) \S+$", build, re.M) for name in line.split()}

    assert copied == files | folders
    assert "openjdk-17-jdk-headless" in build
    assert "openjdk-17-jre-headless" in image
    assert "jdk-17-jdk" not in image
    assert re.findall(r"^COPY --from=build (\S+) (\S+)$", image, re.M) == [
        ("/opt/freshtable", "/opt/freshtable")
    ]


def test_sql_in_the_container_of_the_image_finds_the_generated_token() -> None:
    dockerfile = (DEPLOY / "gateway" / "Dockerfile").read_text()

    home = re.findall('"--home", "([^"]*)"', dockerfile)

    assert re.findall("^ENV FRESHTABLE_HOME=(.*)$", dockerfile, re.MULTILINE) == home


@pytest.mark.parametrize(
    "tokens", ["s3cret", "admin:admin:s3cret,airflow:refresh:other", "admin:admin:s3:c:ret"]
)
@pytest.mark.parametrize("place", ["environment", "file", "quoted"])
def test_the_image_asks_with_the_first_token_at_the_configured_port_whether_it_is_healthy(
    tokens: str, place: str, tmp_path: Path
) -> None:
    asked: list[str] = []

    class Gateway(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers['Authorization']}")
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    environ = {"PATH": "/usr/bin:/bin", "FRESHTABLE_SQL_GATEWAY_SECURITY_TOKENS": tokens, "no_proxy": "*"}
    port, settings = str(server.server_port), tmp_path / "freshtable.yaml"
    in_file = {"environment": "1", "file": port, "quoted": f"'{port}'  # ours"}[place]
    settings.write_text(
        f"sql-gateway.endpoint.rest.address: 0.0.0.0\nsql-gateway.endpoint.rest.port: {in_file}\n"
    )
    if place == "environment":
        environ["FRESHTABLE_SQL_GATEWAY_ENDPOINT_REST_PORT"] = port

    done = subprocess.run(["sh", DEPLOY / "gateway" / "healthy.sh", settings], env=environ, check=False)
    server.shutdown()
    server.server_close()

    assert done.returncode == 0
    assert asked == [f"/v3/info Bearer {'s3:c:ret' if 's3:c' in tokens else 's3cret'}"]
