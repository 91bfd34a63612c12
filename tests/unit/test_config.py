import inspect
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt_core.app.home import Home
from mt_core.app.settings import driver_settings, manager_settings
from mt_core.config import (
    SETTINGS,
    Config,
    Kind,
    Setting,
    load_config,
    machine_zone,
    settings_markdown,
    value_of,
)
from mt_core.errors import ConfigError
from mt_core.sessions.sessions import SessionManager
from mt_core.tables.settings import ManagerSettings

PORT = "sql-gateway.endpoint.rest.port"
PORT_VARIABLE = "FRESHTABLE_SQL_GATEWAY_ENDPOINT_REST_PORT"


def written(folder: Path, text: str) -> Path:
    file = folder / "freshtable.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def source_of(config: Config, key: str) -> str:
    return next(source for found, _, source in config.rows() if found == key)


# --------------------------------------------------------------------------------------------------- defaults


def test_without_anything_the_embedded_defaults_hold(tmp_path: Path) -> None:
    config = load_config(home=tmp_path)

    assert config.home == tmp_path
    assert config.registry_url.reveal() == f"sqlite:///{tmp_path}/registry.db"
    assert config.catalog_url.reveal() == f"sqlite:///{tmp_path}/catalog.db"
    assert config.warehouse == f"{tmp_path}/warehouse"
    assert config.tokens == ()
    assert (config.text("sql-gateway.endpoint.rest.address"), config.integer(PORT)) == ("127.0.0.1", 8083)
    assert (config.text("workflow-scheduler.type"), config.scheduler_options()) == ("memory", {})
    assert config.spark == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sql-gateway.session.idle-timeout", timedelta(minutes=10)),
        ("sql-gateway.session.check-interval", timedelta(minutes=1)),
        ("sql-gateway.session.max-num", 10_000),
        ("sql-gateway.worker.threads.max", 64),
        ("materialized-table.refresh-mode.freshness-threshold", timedelta(minutes=30)),
        ("materialized-table.default-freshness.full", timedelta(hours=1)),
        ("materialized-table.default-freshness.continuous", timedelta(minutes=3)),
        ("materialized-table.initial-refresh", "on-create"),
        ("materialized-table.refresh.max-concurrent", 2),
        ("materialized-table.catch-up.max-partitions", 366),
        ("materialized-table.history", timedelta(days=7)),
        ("execution.runtime-mode", "batch"),
        ("table.local-time-zone", "Asia/Kolkata"),
    ],
)
def test_each_default_has_its_type(key: str, value: object) -> None:
    assert load_config(environ={"TZ": "Asia/Kolkata"}).values[key] == value


def test_a_relative_home_becomes_absolute() -> None:
    assert load_config().home == Path.cwd() / ".freshtable"


@pytest.mark.parametrize("zone", ["Europe/Berlin", ":Europe/Berlin"])
def test_the_zone_of_the_machine_is_taken_from_its_environment(zone: str) -> None:
    assert machine_zone({"TZ": zone}, Path("/nowhere")) == "Europe/Berlin"


def test_the_zone_of_the_machine_is_where_its_clock_points_to(tmp_path: Path) -> None:
    link = tmp_path / "localtime"
    link.symlink_to("/usr/share/zoneinfo/Europe/Paris")

    assert machine_zone({"TZ": "CET-1CEST"}, link) == "Europe/Paris"


def test_a_machine_without_a_zone_is_in_utc(tmp_path: Path) -> None:
    assert machine_zone({}, tmp_path / "missing") == "UTC"


# ------------------------------------------------------------------------------------------------- precedence


def test_later_wins_default_file_environment_override_home(tmp_path: Path) -> None:
    file = written(tmp_path, f"{PORT}: 1\nfreshtable.home: /file")
    environ = {PORT_VARIABLE: "2", "FRESHTABLE_HOME": "/environment"}

    configs = [
        load_config(),
        load_config(file),
        load_config(file, environ),
        load_config(file, environ, [f"{PORT}=3", "freshtable.home=/override"]),
        load_config(file, environ, [f"{PORT}=3", "freshtable.home=/override"], Path("/home")),
    ]

    assert [config.integer(PORT) for config in configs] == [8083, 1, 2, 3, 3]
    assert [str(config.home) for config in configs[1:]] == ["/file", "/environment", "/override", "/home"]
    assert [source_of(config, PORT) for config in configs] == [
        "default",
        f"file {file}",
        f"environment variable {PORT_VARIABLE}",
        f"-D {PORT}",
        f"-D {PORT}",
    ]
    assert source_of(configs[-1], "freshtable.home") == "--home"


@pytest.mark.parametrize(
    "text",
    [
        "sql-gateway.endpoint.rest.port: 99",
        "sql-gateway:\n  endpoint:\n    rest: {port: 99}",
        "sql-gateway:\n  endpoint.rest.port: '99'",
        "sql-gateway.endpoint:\n  rest.port: 99\nregistry:\n",
    ],
)
def test_a_file_may_be_flat_or_nested(tmp_path: Path, text: str) -> None:
    assert load_config(written(tmp_path, text)).integer(PORT) == 99


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_file_changes_nothing(tmp_path: Path, text: str) -> None:
    assert load_config(written(tmp_path, text)).values == load_config().values


def test_a_list_is_joined_with_commas(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, "sql-gateway.security.tokens: [one, two]"))

    assert [token.secret.reveal() for token in config.tokens] == ["one", "two"]


def test_settings_of_spark_are_kept_as_they_are_written(tmp_path: Path) -> None:
    file = written(
        tmp_path, "spark:\n  sql.shuffle.partitions: 2\n  eventLog.enabled: on\n  x: 1:30\nspark.y: ' z '"
    )

    config = load_config(file, overrides=["spark.x=a=b"])

    assert config.spark == {
        "spark.sql.shuffle.partitions": "2",
        "spark.eventLog.enabled": "on",
        "spark.x": "a=b",
        "spark.y": " z ",
    }


def test_variables_that_are_not_ours_are_passed_over() -> None:
    environ = {
        "FRESHTABLE_REGISTRY_SERVICE_HOST": "10.0.0.1",
        "FRESHTABLE_PORT": "tcp://10.0.0.1:8083",
        "PATH": "/bin",
    }

    assert load_config(environ=environ).values == load_config().values


# -------------------------------------------------------------------------------------------------- catalog


def test_options_of_the_catalog_come_without_their_prefix_from_the_file_and_from_overrides(
    tmp_path: Path,
) -> None:
    file = written(
        tmp_path, "catalog:\n  type: REST\n  uri: http://server\n  options:\n    s3.endpoint: http://s3"
    )

    config = load_config(file, overrides=["catalog.options.s3.secret-access-key=hunter2"])

    assert config.catalog_options == {"s3.endpoint": "http://s3", "s3.secret-access-key": "hunter2"}
    assert config.is_served_catalog
    assert config.catalog_url.reveal() == "http://server"
    assert config.warehouse == ""
    assert source_of(config, "catalog.options.s3.endpoint") == f"file {file}"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["catalog.type=rest", "catalog.uri=http://server", "catalog.url=postgresql://h/d"],
            "catalog.url is the database of a catalog of type jdbc, and catalog.type is rest: "
            "set catalog.uri to the URL of the REST server, and remove catalog.url.",
        ),
        (
            ["catalog.uri=http://server"],
            "catalog.uri is the REST server of a catalog of type rest, and catalog.type is jdbc: "
            "set catalog.type to rest, or set catalog.url to the database and remove catalog.uri.",
        ),
        (
            ["catalog.type=rest"],
            "catalog.type is rest, and catalog.uri is not set: set it to the URL of the REST server.",
        ),
        (
            ["catalog.options.uri=http://server"],
            "catalog.options.uri is not an option of the catalog; set catalog.url instead.",
        ),
        (
            ["catalog.type=rest", "catalog.uri=http://server", "catalog.options.uri=http://server"],
            "catalog.options.uri is not an option of the catalog; set catalog.uri instead.",
        ),
        (
            ["catalog.options.catalog-impl=org.example.Catalog"],
            "catalog.options.catalog-impl is not an option of the catalog; set catalog.type instead.",
        ),
        (
            ["catalog.options.cache-enabled=true"],
            "catalog.options.cache-enabled must be false: "
            "the catalog would not see what other processes commit.",
        ),
    ],
)
def test_a_setting_that_does_not_fit_the_type_of_the_catalog_is_refused_by_name(
    overrides: list[str], message: str, tmp_path: Path
) -> None:
    config = load_config(overrides=overrides, home=tmp_path)

    with pytest.raises(ConfigError) as refused:
        driver_settings(config, Home(tmp_path), {})

    assert refused.value.message == message


@pytest.mark.parametrize("key", ["catalog.options.", "catalog.option.x"])
def test_an_option_of_the_catalog_without_its_name_is_not_a_setting(key: str) -> None:
    with pytest.raises(ConfigError, match="is not a setting"):
        load_config(overrides=[f"{key}=x"])


# ------------------------------------------------------------------------------------------ scheduler options


def test_options_of_the_chosen_scheduler_come_without_their_prefix(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "workflow-scheduler:\n  type: airflow\n  airflow:\n    endpoint: http://file\n"
        "    user: u\n  other.x: y",
    )
    environ = {
        "FRESHTABLE_WORKFLOW_SCHEDULER_AIRFLOW_PASSWORD": "p",
        "FRESHTABLE_WORKFLOW_SCHEDULER_AIRFLOW_ENDPOINT": "http://environment",
        "FRESHTABLE_WORKFLOW_SCHEDULER_AIRFLOW_USER": "environment",
    }

    config = load_config(file, environ, ["workflow-scheduler.airflow.user=override"])

    assert config.scheduler_options() == {"endpoint": "http://file", "user": "override"}
    assert config.scheduler_options(["endpoint", "user", "password", "timeout"]) == {
        "endpoint": "http://environment",
        "user": "override",
        "password": "p",
    }


# ----------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (f"{PORT}=x", f"{PORT}: 'x' (-D {PORT}) cannot be used; expected a whole number from 0 to 65535."),
        (
            f"{PORT}=70000",
            f"{PORT}: '70000' (-D {PORT}) cannot be used; expected a whole number from 0 to 65535.",
        ),
        (f"{PORT}=", f"{PORT}: '' (-D {PORT}) cannot be used; expected a whole number from 0 to 65535."),
        (
            "materialized-table.history=7",
            "materialized-table.history: '7' (-D materialized-table.history) cannot be used; "
            "expected a duration such as 30 min, 10 s, 500 ms, 1 h or 7 d.",
        ),
        (
            "materialized-table.default-freshness.full=500 ms",
            "materialized-table.default-freshness.full: "
            "'500 ms' (-D materialized-table.default-freshness.full) cannot be "
            "used; expected a duration such as 30 min, 10 s, 500 ms, 1 h or 7 d, at least 1 s.",
        ),
        (
            "execution.runtime-mode=fast",
            (
                "execution.runtime-mode: 'fast' (-D execution.runtime-mode) cannot be used; "
                "expected batch or streaming."
            ),
        ),
        (
            "table.local-time-zone=Mars",
            "table.local-time-zone: 'Mars' (-D table.local-time-zone) cannot be used; "
            "expected an IANA name such as Europe/Berlin.",
        ),
        (
            "registry.url=user:secret@host",
            "registry.url: *** (-D registry.url) cannot be used; "
            "expected a URL such as postgresql://user:password@host:5432/db.",
        ),
        (
            "workflow-scheduler.type=",
            (
                "workflow-scheduler.type: '' (-D workflow-scheduler.type) cannot be used; "
                "expected a non-empty text."
            ),
        ),
        (PORT, f"-D {PORT}: expected key=value, for example -D workflow-scheduler.type=memory."),
        ("=x", "-D =x: expected key=value, for example -D workflow-scheduler.type=memory."),
        (
            "sql-gateway.endpoint.rest.prot=1",
            (
                "sql-gateway.endpoint.rest.prot (-D sql-gateway.endpoint.rest.prot) is not a setting; "
                f"did you mean {PORT}?"
            ),
        ),
        (
            "regisrty.url=x",
            "regisrty.url (-D regisrty.url) is not a setting; did you mean registry.url?",
        ),
        (
            "workflow-scheduler.typ=x",
            (
                "workflow-scheduler.typ (-D workflow-scheduler.typ) is not a setting; "
                "did you mean workflow-scheduler.type?"
            ),
        ),
        ("zzz=x", "zzz (-D zzz) is not a setting; docs/settings.md lists all settings."),
    ],
)
def test_a_wrong_override_is_named_with_the_way_out(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(overrides=[override])

    assert refused.value.message == message


def test_a_wrong_value_names_the_environment_variable() -> None:
    with pytest.raises(ConfigError, match=rf"{PORT}: 'x' \(environment variable {PORT_VARIABLE}\)"):
        load_config(environ={PORT_VARIABLE: "x"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{PORT}: x", f"{PORT}: 'x' (file FILE) cannot be used; expected a whole number from 0 to 65535."),
        ("catalog:\n  ulr: x", "catalog.ulr (file FILE) is not a setting; did you mean catalog.url?"),
        (f"{PORT}: 1\nsql-gateway:\n  endpoint.rest.port: 2", f"{PORT} is given twice in FILE; keep one."),
        (f"{PORT}: 1\n{PORT}: 2", f"FILE, line 2: this is not YAML: {PORT} is given twice; keep one."),
        (
            "catalog:\n  url: a\ncatalog:\n  warehouse: b",
            "FILE, line 3: this is not YAML: catalog is given twice; keep one.",
        ),
        ("- a\n- b", "FILE: expected settings as `key: value`, found list."),
        ("just text", "FILE: expected settings as `key: value`, found str."),
        ("a: 1\nb: [1\nc: 2", "FILE, line 3: this is not YAML: expected ',' or ']', but got ':'."),
        (
            "a: 1\n\tb: 2",
            "FILE, line 2: this is not YAML: found character '\\t' that cannot start any token.",
        ),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = written(tmp_path, text)

    with pytest.raises(ConfigError) as refused:
        load_config(file)

    assert refused.value.message == message.replace("FILE", str(file))


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.yaml cannot be read: .*No such file") as refused:
        load_config(tmp_path / "gone.yaml")

    assert isinstance(refused.value.__cause__, OSError)


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "binary.yaml"
    file.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(ConfigError, match=r"binary\.yaml cannot be read"):
        load_config(file)


# ----------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("30 min", timedelta(minutes=30)),
        ("10s", timedelta(seconds=10)),
        ("10 SEC", timedelta(seconds=10)),
        ("500 ms", timedelta(milliseconds=500)),
        ("1 h", timedelta(hours=1)),
        ("7 days", timedelta(days=7)),
        (" 2 m ", timedelta(minutes=2)),
        ("0", timedelta(0)),
        ("0 s", timedelta(0)),
    ],
)
def test_durations(text: str, value: timedelta) -> None:
    assert value_of(Setting(key="k", kind=Kind.DURATION, help=""), text, "here") == value


@pytest.mark.parametrize(
    "text", ["", "10", "min", "-1 min", "1.5 h", "1 fortnight", "1 min 2 s", "99999999999 d", "٣ s"]
)
def test_texts_that_are_no_duration(text: str) -> None:
    with pytest.raises(ConfigError, match="expected a duration such as 30 min"):
        value_of(Setting(key="k", kind=Kind.DURATION, help=""), text, "here")


@pytest.mark.parametrize(("text", "value"), [("true", True), ("FALSE", False)])
def test_booleans(text: str, value: bool) -> None:
    assert value_of(Setting(key="k", kind=Kind.BOOLEAN, help=""), text, "here") is value


@pytest.mark.parametrize("text", ["yes", "1", ""])
def test_texts_that_are_no_boolean(text: str) -> None:
    with pytest.raises(ConfigError, match="expected true or false"):
        value_of(Setting(key="k", kind=Kind.BOOLEAN, help=""), text, "here")


@given(st.sampled_from(list(SETTINGS)), st.text())
def test_any_text_is_a_value_or_a_named_error(setting: Setting, text: str) -> None:
    try:
        value = value_of(setting, text, "here")
    except ConfigError as error:
        refusal = error.message
    else:
        refusal = "" if value is not None else "no value"

    assert refusal == "" or refusal.startswith((f"{setting.key}: ", f"{setting.key} (here): "))


def test_asking_for_another_type_is_a_mistake_of_ours() -> None:
    config = load_config()

    with pytest.raises(TypeError, match="is not an integer setting"):
        config.integer("freshtable.home")
    with pytest.raises(TypeError, match="is not a duration setting"):
        config.duration(PORT)


# ---------------------------------------------------------------------------------------------------- secrets


def test_no_secret_is_in_the_rows_or_the_repr() -> None:
    config = load_config(
        overrides=[
            "sql-gateway.security.tokens=hunter2,hunter3",
            "registry.url=postgresql://u:hunter2@h/db",
            "catalog.url=postgresql://u:hunter2@h/db",
            "spark.hadoop.fs.s3a.secret.key=hunter2",
            "spark.sql.catalog.x.uri=postgresql://u:hunter2@h/db",
            "catalog.options.credential=hunter2",
            "catalog.options.oauth2-server-uri=https://u:hunter2@h/tokens",
            "workflow-scheduler.airflow.password=hunter2",
        ]
    )

    rows = {key: value for key, value, _ in config.rows()}

    assert "hunter" not in f"{rows} {config}"
    assert rows["sql-gateway.security.tokens"] == "token-1:admin:***, token-2:admin:***"
    assert rows["registry.url"] == "postgresql://u:***@h/db"
    assert rows["workflow-scheduler.airflow.password"] == "***"
    assert config.registry_url.reveal() == "postgresql://u:hunter2@h/db"


# ------------------------------------------------------------------------------------------------------- docs


def test_rows_are_ordered_and_hold_every_setting() -> None:
    keys = [key for key, _, _ in load_config().rows()]

    assert keys == sorted(setting.key for setting in SETTINGS)


def test_the_table_for_the_docs_has_a_line_for_every_setting() -> None:
    lines = settings_markdown().splitlines()

    assert len(lines) == len(SETTINGS) + 2
    assert all(line.count(" | ") == 4 for line in lines if not line.startswith("|---"))
    assert (
        f"| `{PORT}` | integer | `8083` | `{PORT_VARIABLE}` | Port the gateway listens on; "
        "0 takes any free port. |"
    ) in lines


def test_no_two_settings_share_a_key_or_a_variable() -> None:
    assert (
        len({setting.key for setting in SETTINGS})
        == len({setting.variable for setting in SETTINGS})
        == len(SETTINGS)
    )


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1024", 1024),
        ("7 b", 7),
        ("64 kb", 65536),
        ("256mb", 2**28),
        ("1 GB", 2**30),
        ("2 t", 2**41),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert value_of(Setting(key="k", kind=Kind.SIZE, help=""), text, "here") == size


@pytest.mark.parametrize("text", ["", "mb", "-1", "1.5 gb", "1 kib of it", "1 pb"])
def test_texts_that_are_no_size(text: str) -> None:
    with pytest.raises(ConfigError, match="expected a size such as 64 mb, 2 gb or a number of bytes"):
        value_of(Setting(key="k", kind=Kind.SIZE, help=""), text, "here")


def test_the_defaults_in_code_are_those_of_the_settings(tmp_path: Path) -> None:
    config = load_config(None, {}, (), tmp_path)

    told = manager_settings(config)

    assert replace(told, owner="", zone="UTC") == ManagerSettings(owner="")
    assert defaults_of(SessionManager)["max_sessions"] == config.integer("sql-gateway.session.max-num")
    assert defaults_of(SessionManager)["idle_timeout"] == config.duration("sql-gateway.session.idle-timeout")


def defaults_of(cls: type) -> dict[str, object]:
    return {name: each.default for name, each in inspect.signature(cls).parameters.items()}
