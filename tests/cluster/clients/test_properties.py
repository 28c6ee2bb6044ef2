import pytest
from confluent_kafka import Consumer
from kafka.admin import KafkaAdminClient

from rebalance_monitor.cluster.clients.properties import (
    C_ONLY,
    SPELLINGS,
    admin_arguments,
    java_properties,
    portable,
    reader_settings,
)
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.kafka.jaas import parse
from rebalance_monitor.config.kafka.logins import JAVA_SASL

SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="mon" password="a\\"b;";'


def test_every_admin_spelling_is_an_argument_of_the_client() -> None:
    assert {s.admin for s in SPELLINGS.values() if s.admin} <= set(KafkaAdminClient.DEFAULT_CONFIG)


def test_every_reader_spelling_is_known_to_librdkafka() -> None:
    numbers = {name for name, spelling in SPELLINGS.items() if spelling.convert is int}
    # What Java calls by the same name says nothing without a login of that kind.
    own = SPELLINGS.keys() - JAVA_SASL
    values = {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "ssl.endpoint.identification.algorithm": "none",
        "client.dns.lookup": "use_all_dns_ips",
        "sasl.oauthbearer.method": "default",
        "https.ca.location": "/",
    }
    given = {name: values.get(name, "1000" if name in numbers else "x") for name in own}
    found = reader_settings(given)
    assert found.keys() == {SPELLINGS[name].reader for name in own if SPELLINGS[name].reader}
    for setting, value in found.items():
        plain = setting in {"security.protocol", "ssl.ca.location", "ssl.crl.location"}
        plain = plain or setting.startswith(("ssl.certificate", "ssl.key"))
        Consumer({"group.id": "g", setting: "PLAINTEXT" if plain else value}).close()


def test_a_scram_login_reaches_both_clients() -> None:
    properties = {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": SCRAM,
        "ssl.truststore.location": "/etc/ca.pem",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.location": "/etc/key.pem",
    }
    admin, reader = admin_arguments(properties), reader_settings(properties)
    assert (admin["sasl_plain_username"], admin["sasl_plain_password"]) == ("mon", 'a"b;')
    assert (reader["sasl.username"], reader["sasl.password"]) == ("mon", 'a"b;')
    assert admin["sasl_mechanism"] == reader["sasl.mechanism"] == "SCRAM-SHA-512"
    assert admin["security_protocol"] == reader["security.protocol"] == "SASL_SSL"
    assert admin["ssl_cafile"] == reader["ssl.ca.location"] == "/etc/ca.pem"
    assert admin["ssl_keyfile"] == reader["ssl.key.location"] == "/etc/key.pem"


def test_a_login_and_files_in_librdkafkas_words_reach_java() -> None:
    properties = {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "scram-sha-512",
        "sasl.username": 'm"on',
        "sasl.password": 'a"b;\\',
        "ssl.ca.location": "/etc/ca.pem",
        "ssl.certificate.location": "/etc/key.pem",
        "ssl.key.location": "/etc/key.pem",
    }
    java = java_properties(properties)
    login = parse(java["sasl.jaas.config"])
    assert login.name == "ScramLoginModule"
    assert (login.options["username"], login.options["password"]) == ('m"on', 'a"b;\\')
    assert java["sasl.mechanism"] == "SCRAM-SHA-512"
    assert java["ssl.truststore.location"] == "/etc/ca.pem"
    assert java["ssl.keystore.location"] == "/etc/key.pem"
    assert java["ssl.truststore.type"] == java["ssl.keystore.type"] == "PEM"
    assert not [name for name in java if name in C_ONLY]


def test_host_names_are_checked_unless_switched_off_in_javas_way() -> None:
    for off in ({"ssl.endpoint.identification.algorithm": text} for text in ("", " ", "none", "NONE")):
        assert admin_arguments(off) == {"ssl_check_hostname": False}
        assert reader_settings(off) == {"ssl.endpoint.identification.algorithm": "none"}
        assert java_properties(off) == {"ssl.endpoint.identification.algorithm": ""}
    assert admin_arguments({"ssl.endpoint.identification.algorithm": "https"}) == {"ssl_check_hostname": True}


def test_tuning_of_sparks_consumer_is_left_out() -> None:
    tuning = {"fetch.max.wait.ms": "5", "max.poll.records": "50000"}
    assert admin_arguments(tuning) == reader_settings(tuning) == {}


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("ssl.truststore.location", "/nowhere/trust.jks", "which cannot be read"),
        ("sasl.jass.config", "x.Y required;", "no counterpart"),
        ("ssl.keystore.key", "-----BEGIN PRIVATE KEY-----", r"into a PEM file, .*`ssl\.keystore\.location`"),
        ("ssl.engine.factory.class", "x.Y", "no counterpart"),
        ("request.timeout.ms", "soon", "whole number"),
        ("request.timeout.ms", "0", "must be 100 or more, not '0'"),
        ("connections.max.idle.ms", "0", "must be 1000 or more, not '0'"),
    ],
)
def test_what_cannot_be_mapped_is_refused_by_name(name: str, value: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as told:
        admin_arguments({name: value})
    assert name in str(told.value)


def test_a_misspelt_property_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(ConfigError, match=r"security\.protocl.*did you mean `security\.protocol`\?"):
        portable({"bootstrap.servers": "a:1", "security.protocl": "SASL_SSL"})


def test_a_password_never_stands_in_the_refusal() -> None:
    with pytest.raises(ConfigError) as told:
        admin_arguments({"sasl.jaas.config": 'x.OAuthBearerLoginModule required password="hunter2";'})
    assert "hunter2" not in str(told.value)
