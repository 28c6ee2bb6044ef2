"""Client properties as java.util.Properties reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.kafka.properties_file import parse_properties, read_properties

if TYPE_CHECKING:
    from pathlib import Path

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="a=b:c#d";'


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
        (f"sasl.jaas.config={JAAS}", {"sasl.jaas.config": JAAS}),
    ],
)
def test_a_line_is_read_as_java_does(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found


@given(st.text())
def test_no_text_raises(text: str) -> None:
    parse_properties(text)


def test_what_the_monitor_sets_itself_is_left_out_of_a_file_that_other_clients_use(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("group.id=tools\nsecurity.protocol=SSL\n", encoding="utf-8")
    assert read_properties(path) == {"security.protocol": "SSL"}


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.properties cannot be read"):
        read_properties(tmp_path / "gone.properties")
