"""What is a secret, and how everything that shows one hides it."""

from __future__ import annotations

import re
import time
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mt_core.base.secrets import (
    SECRET_KEYS,
    Secret,
    is_secret,
    masked,
    redacted,
    secret_url,
    statement_text,
    without_passwords,
)

SECRETS = [
    *product(("access", "account", "private", "api", "shared", "encryption"), ("key",)),
    *[
        (word,)
        for word in (
            "password",
            "passwd",
            "passphrase",
            "pwd",
            "secret",
            "token",
            "credential",
            "authorization",
        )
    ],
    *[
        ("secret", "access", "key"),
        ("session", "token"),
        ("client", "secret"),
        ("ssl", "key", "password"),
        ("db", "pass"),
    ],
]
SPELLINGS = [
    *[separator.join for separator in (".", "-", "_", "")],
    lambda words: words[0] + "".join(word.title() for word in words[1:]),
]
prefixes = st.sampled_from(["", "s3.", "write.", "spark.hadoop.fs.s3a.", "jdbc_", "x-", "my.", "partition."])
# An account or a bucket may be named behind the secret word, as Azure's keys have it.
suffixes = st.sampled_from(["", ".acc.dfs.core.windows.net", ".bucket1", "-id", "s"])


@settings(max_examples=200, deadline=None)
@given(
    prefix=prefixes,
    words=st.sampled_from(SECRETS),
    spelling=st.sampled_from(SPELLINGS),
    case=st.sampled_from([str, str.upper, str.lower]),
)
def test_a_secret_is_hidden_however_its_key_is_spelt(prefix, words, spelling, case) -> None:
    key = case(prefix + spelling(words))

    assert masked({key: "hunter2"}) == {key: "***"}


@given(
    prefix=prefixes,
    word=st.sampled_from(["account.key", "sas-token", "access-key", "credential"]),
    suffix=suffixes,
)
def test_a_secret_is_hidden_when_its_key_names_an_account_behind_it(
    prefix: str, word: str, suffix: str
) -> None:
    assert is_secret(prefix + word + suffix)


@pytest.mark.parametrize(
    "key",
    [
        "partition.fields.ds.date-formatter",
        "partition.fields.token.date-formatter",
        "write.key-fields",
        "key.fields",
        "primary.key",
        "key.format",
        "write.metadata.metrics.column.password",
        "write.parquet.bloom-filter-enabled.column.api_token",
        "client.credentials-provider",
        "rest.auth.oauth2.token-refresh-enabled",
        "token-expires-in-ms",
        "gcs.oauth2.token-expires-at",
        "spark.kubernetes.oauthTokenFile",
        "spark.authenticate.secretBitLength",
        "ssl.keystore.location",
        "tokenizer.kind",
        "bypass",
        "oauth2-server-uri",
    ],
)
def test_an_option_about_a_secret_or_with_a_name_like_one_is_shown(key: str) -> None:
    assert masked({key: "a value"}) == {key: "a value"}


def test_secrets_are_ordered_by_key_and_one_that_is_empty_is_shown_as_such() -> None:
    shown = masked({"b.password": "x", "a": "1", "fs.s3a.access.key": "y", "apiToken": ""})

    assert list(shown.items()) == [
        ("a", "1"),
        ("apiToken", ""),
        ("b.password", "***"),
        ("fs.s3a.access.key", "***"),
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no route to jdbc:postgresql://u:p@ss@h/db now", "no route to jdbc:postgresql://u:***@h/db now"),
        ("redis://:pw@h", "redis://:***@h"),
        ("http://h:8080/x?mail=a@b", "http://h:8080/x?mail=a@b"),
        ("AccountName=a;AccountKey=abc==;x=1", "AccountName=a;AccountKey=***;x=1"),
        ('Login required user="u" password="a b";', 'Login required user="u" password=***;'),
        ("https://h/o?X-Amz-Signature=ab&part=1", "https://h/o?X-Amz-Signature=***&part=1"),
        ("Authorization: Bearer abc.def, sent", "Authorization: Bearer ***, sent"),
        ("a = 1 and b=2", "a = 1 and b=2"),
    ],
)
def test_a_text_is_shown_without_the_passwords_in_it(text: str, shown: str) -> None:
    assert (without_passwords(text), without_passwords(shown)) == (shown, shown)


def test_a_text_that_quotes_a_secret_property_is_shown_without_it() -> None:
    text = redacted(
        "Login of alice with hunter2 failed, hunter22 too", {"db.passwd": "hunter2", "db.user": "alice"}
    )

    assert text == "Login of alice with *** failed, hunter22 too"


@given(key=st.from_regex(r"[a-z.]{0,12}(token|password|key|file|enabled)", fullmatch=True))
def test_spark_reads_the_same_rule(key: str) -> None:
    # What Java's and Python's expressions have in common; `(?i)` in front is how Spark is given it.
    assert is_secret(key) == bool(re.search(f"(?i){SECRET_KEYS}", key))


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret("hunter2")

    assert (str(secret), repr(secret), f"{secret}", f"{secret!r}", secret.reveal()) == (
        "***",
        "***",
        "***",
        "***",
        "hunter2",
    )
    assert (secret == Secret("hunter2"), secret == Secret("x"), secret == "hunter2") == (True, False, False)
    assert (bool(secret), bool(Secret("")), len({secret, Secret("hunter2")})) == (True, False, 1)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@h:5432/db", "postgresql://u:***@h:5432/db"),
        ("postgresql://u:p@ss:w@h/db", "postgresql://u:***@h/db"),
        (
            "postgresql://h/db?user=u&password=p&sslmode=require",
            "postgresql://h/db?user=u&password=***&sslmode=require",
        ),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("sqlite:////tmp/registry.db", "sqlite:////tmp/registry.db"),
        ("", ""),
    ],
)
def test_a_url_shows_all_but_its_password(url: str, shown: str) -> None:
    assert (str(secret_url(url)), repr(secret_url(url)), secret_url(url).reveal()) == (shown, shown, url)


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("SET 's3.secret-key' = 'hunter2'", "SET 's3.secret-key' = '***'"),
        (
            "CREATE CATALOG c WITH ('a' = 'b', 'password'='hunter2')",
            "CREATE CATALOG c WITH ('a' = 'b', 'password'='***')",
        ),
        ("CREATE USER ada PASSWORD 'hunter2'", "CREATE USER ada PASSWORD '***'"),
        ("SELECT 'a' = 'b', 'hunter2'", "SELECT 'a' = 'b', 'hunter2'"),
    ],
)
def test_a_statement_is_shown_without_the_values_of_its_secret_properties(statement: str, shown: str) -> None:
    assert statement_text(statement, len(statement)) == shown


@pytest.mark.parametrize("text", ["X'{}'", "{}", '"{}'])
def test_a_statement_with_a_long_literal_is_masked_in_time_that_grows_with_its_length(text: str) -> None:
    statement = f"SELECT {text.format('a' * 200_000)}, f('token' = 'hunter2')"
    began = time.thread_time()

    shown = statement_text(statement, len(statement))

    assert "hunter2" not in shown or text == '"{}'
    assert time.thread_time() - began < 5


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "SELECT * FROM t /*+ OPTIONS('password'='hun''ter2', 'a' = 'b') */",
            "SELECT * FROM t /*+ OPTIONS('password'='***', 'a' = 'b') */",
        ),
        ('[PARSE] near `s3.secret-key` = "hunter2"', "[PARSE] near `s3.secret-key` = '***'"),
        ("SELECT token = 'a', 'token', 'a' = 'b'", "SELECT token = 'a', 'token', 'a' = 'b'"),
    ],
)
def test_a_query_and_an_error_are_shown_without_the_values_of_secret_options(text: str, shown: str) -> None:
    assert without_passwords(text) == shown
