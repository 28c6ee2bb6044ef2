"""Client properties as java.util.Properties reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rebalance_monitor.cluster.jars.gateway import java_gateway
from rebalance_monitor.cluster.jars.jars import installed_spark, resolve_spark_kafka
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.kafka.properties_file import parse_properties, read_properties

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="a=b:c#d";'


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    with java_gateway(resolve_spark_kafka(*installed_spark())) as found:
        yield found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a: b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a", {"a": ""}),
        ("# a=b\n! c=d\n\n  e=f", {"e": "f"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a=\\u00e9\\t", {"a": "é\t"}),
        ("a=1\r\nb=2\r\n", {"a": "1", "b": "2"}),
        ("a=1\na=2", {"a": "2"}),
        ("# a folder: C:\\\na=1", {"a": "1"}),
        ("a=1\\\n# no comment", {"a": "1# no comment"}),
        ("a=1\\", {"a": "1"}),
        ("a=\\ud83d\\ude00", {"a": "\U0001f600"}),
        ("\u00ef\u00bb\u00bfa=1", {"a": "1"}),
        ("=1\n:", {"": ""}),
        ("a=1\rb=2", {"a": "1", "b": "2"}),
        (f"sasl.jaas.config={JAAS}", {"sasl.jaas.config": JAAS}),
    ],
)
def test_a_line_is_read_as_java_does(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found


@pytest.mark.parametrize("value", ["\\u12", "C:\\users", "\\uXYZW", "\\ud83d"])
def test_an_escape_that_java_refuses_is_refused_without_a_quote(tmp_path: Path, value: str) -> None:
    (path := tmp_path / "client.properties").write_text(f"sasl.password=hunter2{value}\n")
    with pytest.raises(ConfigError, match=r"client\.properties cannot be read: .*`\\u`") as told:
        read_properties(path)
    assert "hunter2" not in str(told.value)


def test_a_file_is_read_as_kafkas_tools_read_it_whatever_it_was_saved_as(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(b"\xef\xbb\xbfsecurity.protocol = SSL\r\nssl.key.password=\xe4\r\n")
    assert read_properties(path) == {"security.protocol": "SSL", "ssl.key.password": "\xe4"}


@example("\\\r")
@example("a=b\n\\\n")
@example("\\\r\n")
@given(st.text(st.sampled_from("ab =:#!\\u0041\n\r\t\f"), max_size=24))
@pytest.mark.spark
def test_any_text_is_read_as_java_reads_it(jvm: Any, text: str) -> None:  # noqa: ANN401 - of a JVM
    from py4j.protocol import Py4JJavaError

    properties = jvm.java.util.Properties()
    try:
        properties.load(jvm.java.io.StringReader(text))
    except Py4JJavaError:
        with pytest.raises(ValueError, match="u"):
            parse_properties(text)
        return
    assert parse_properties(text) == {name: properties.getProperty(name) for name in properties.keySet()}


def test_what_the_monitor_sets_itself_is_left_out_of_a_file_that_other_clients_use(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("group.id=tools\nsecurity.protocol=SSL\n", encoding="utf-8")
    assert read_properties(path) == {"security.protocol": "SSL"}


def test_what_a_config_provider_holds_is_asked_for_by_name(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("config.providers=file\nsasl.jaas.config=${file:/secrets/kafka:jaas}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"client\.properties: `sasl\.jaas\.config` refers to a provider"):
        read_properties(path)
    path.write_text("config.providers=file\nclient.rack=${file:/etc/rack:name}\n", encoding="utf-8")
    assert read_properties(path)["client.rack"]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.properties cannot be read"):
        read_properties(tmp_path / "gone.properties")
