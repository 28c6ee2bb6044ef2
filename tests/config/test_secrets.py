"""Secrets reach the clients and nothing else; free-form properties pass through unchanged."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.kafka.clients import Kafka, Spark
from rebalance_monitor.config.load import load

HUSH = "correct-horse-battery"
SECRET_KEYS = ["sasl.jaas.config", "ssl.key.password", "ssl.keystore.key", "sasl.oauthbearer.client.secret"]
STORES = [
    "spark.hadoop.fs.azure.account.key.acme.dfs.core.windows.net",
    "spark.hadoop.fs.azure.sas.container.acme.blob.core.windows.net",
    "spark.hadoop.fs.azure.sas.fixed.token.acme.dfs.core.windows.net",
    "spark.hadoop.fs.s3a.access.key",
    "spark.hadoop.fs.s3a.secret.key",
    "spark.hadoop.fs.s3a.encryption.key",
]


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_a_secret_is_in_no_text_form_of_the_settings(key: str) -> None:
    settings = load(flags={f"kafka.{key}": HUSH, "spark.spark.ssl.keyPassword": HUSH})
    assert settings.kafka.client_properties()[key] == HUSH
    for text in (repr(settings), str(settings), settings.model_dump_json(), str(settings.redacted())):
        assert HUSH not in text


@pytest.mark.parametrize("key", STORES)
def test_the_key_of_an_object_store_is_a_secret(key: str) -> None:
    spark = Spark.model_validate({key: HUSH})
    assert (spark.redacted()[key], spark.properties()[key]) == ("**********", HUSH)


LETTERS = st.characters(exclude_characters="\0", codec="utf-8")


@given(st.text(LETTERS, min_size=8).filter(lambda text: text.strip("*") != ""))
def test_no_value_of_a_secret_key_is_shown(value: str) -> None:
    kafka = Kafka.model_validate({"sasl.jaas.config": value})
    assert kafka.redacted()["sasl.jaas.config"] == "**********"
    assert kafka.properties()["sasl.jaas.config"] == value


def test_a_secret_that_is_refused_is_not_in_the_message(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"kafka:\n  sasl.password: [{HUSH}]\n  bootstrap_servers: nowhere\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert HUSH not in str(caught.value)


def test_a_value_comes_from_the_file_that_its_key_names(tmp_path: Path) -> None:
    (tmp_path / "jaas").write_text(HUSH + "\n", encoding="utf-8")
    kafka = load(flags={"kafka.sasl.jaas.config_file": str(tmp_path / "jaas")}).kafka
    assert kafka.client_properties()["sasl.jaas.config"] == HUSH
    assert "sasl.jaas.config_file" not in kafka.client_properties()


def test_another_spelling_of_a_stronger_layer_replaces_what_a_weaker_one_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jaas").write_text(HUSH, encoding="utf-8")
    path = tmp_path / "monitor.yaml"
    path.write_text(
        "kafka:\n  sasl.jaas.config_file: /nowhere/jaas\n  bootstrap.servers: a:1\n", encoding="utf-8"
    )
    monkeypatch.setenv("REBALANCE_MONITOR_KAFKA__SASL_JAAS_CONFIG_FILE", str(tmp_path / "jaas"))
    monkeypatch.setenv("REBALANCE_MONITOR_KAFKA__BOOTSTRAP_SERVERS", "b:2")
    found = load(path).kafka.client_properties()
    assert found == {"bootstrap.servers": "b:2", "sasl.jaas.config": HUSH}
    assert load(path, {"kafka.sasl.jaas.config": "given"}).kafka.properties() == {"sasl.jaas.config": "given"}


@pytest.mark.parametrize("other", ["sasl_password", "sasl.password_file"])
def test_a_property_that_one_layer_sets_twice_is_refused(other: str) -> None:
    with pytest.raises(ConfigError, match=r"`sasl\.password` and `.*` both set `sasl\.password`"):
        load(flags={"kafka.sasl.password": HUSH, f"kafka.{other}": HUSH})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_what_an_editor_puts_around_a_secret_is_no_part_of_it(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "jaas").write_text(HUSH + "\r\n", encoding=encoding)
    kafka = load(flags={"kafka.sasl.jaas.config_file": str(tmp_path / "jaas")}).kafka
    assert kafka.client_properties()["sasl.jaas.config"] == HUSH


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_secret_of_which_clients_would_read_a_part_is_refused(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "password").write_text(HUSH, encoding=encoding)
    with pytest.raises(ConfigError, match=r"`sasl\.password_file` holds the character NUL") as told:
        load(flags={"kafka.sasl.password_file": str(tmp_path / "password")})
    assert HUSH[:4] not in str(told.value)


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        (
            "spark.driver.extraJavaOptions",
            f"-Xss4m -Djavax.net.ssl.trustStorePassword={HUSH}",
            "**********",
        ),
        ("spark.executor.extraJavaOptions", "-Xss4m", "-Xss4m"),
        ("spark.hadoop.proxy", f"http://u:{HUSH}@proxy:1", "http://proxy:1"),
    ],
)
def test_a_secret_within_a_value_is_not_shown(key: str, value: str, shown: str) -> None:
    spark = Spark.model_validate({key: value})
    assert (spark.redacted()[key], spark.properties()[key]) == (shown, value)
    assert HUSH not in repr(spark).replace(value, "" if shown != "**********" else value)


@pytest.mark.parametrize(
    "name", ["securty.protocol", "Security.Protocol", "security-protocol", "sals_mechanism"]
)
def test_a_misspelt_property_is_refused_where_clients_would_connect_in_plain_text(name: str) -> None:
    with pytest.raises(ConfigError, match=f"`{name}` is unknown; did you mean"):
        load(flags={f"kafka.{name}": "SASL_SSL"})


def test_a_secret_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`sasl\.password_file` names .*/none, which cannot be read"):
        load(flags={"kafka.sasl.password_file": str(tmp_path / "none")})


def test_the_environment_writes_underscores_for_dots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REBALANCE_MONITOR_KAFKA__SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("REBALANCE_MONITOR_KAFKA__BOOTSTRAP_SERVERS", "a:1,b:2")
    assert load().kafka.client_properties() == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "SASL_SSL",
    }


def test_both_spellings_and_lists_of_bootstrap_servers_are_understood() -> None:
    assert Kafka.model_validate({"bootstrap.servers": ["a:1", "b:2"]}).bootstrap_servers == "a:1,b:2"


def test_numbers_and_booleans_become_what_java_properties_hold() -> None:
    spark = Spark.model_validate({"spark.a": 2, "spark.b": True, "spark.c": 1.5})
    assert spark.properties() == {"spark.a": "2", "spark.b": "true", "spark.c": "1.5"}
