"""Logins that Java's classes make, as far as no broker has a part in them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError

from rebalance_monitor.cluster.clients.java_stores import with_pem
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.jars.ivy import Coordinate, cache_folder, resolve
from rebalance_monitor.cluster.jars.jars import SHIPPED_WITH_SPARK, installed_spark, resolve_spark_kafka
from rebalance_monitor.cluster.jars.shared_jvm import SHARED_JVM
from rebalance_monitor.cluster.logins.java_login import JavaLogin
from rebalance_monitor.config.load import load
from tests.cluster.support.login_page import block

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

OF_IAM = block("By IAM", {}, "managed-kafka.md")
IAM = {name: value for name, value in OF_IAM["kafka"].items() if name != "bootstrap_servers"}


@pytest.fixture(autouse=True)
def jvm() -> Iterator[None]:
    SHARED_JVM.close()
    yield
    SHARED_JVM.close()


def bring(jars: Sequence[Path]) -> None:
    """Have the JVM of logins know these jars beside Spark's connector."""
    found = [*resolve_spark_kafka(*installed_spark()), *jars]
    SHARED_JVM.configure(load(flags={"jars": [str(jar) for jar in found]}), lambda: None)


def test_a_class_that_is_missing_is_reported_with_where_to_add_it() -> None:
    bring([])
    with pytest.raises(DependencyError, match=r"does not find a class of the login") as told:
        JavaLogin(IAM).require()
    assert "`jars:`" in told.value.remedy


@pytest.mark.parametrize(("mechanism", "way"), [("AWS_MSK_IAM", "`spark`"), ("GSSAPI", "`kerberos`")])
def test_without_pyspark_the_extra_that_makes_the_login_is_named(
    monkeypatch: pytest.MonkeyPatch, mechanism: str, way: str
) -> None:
    monkeypatch.setitem(sys.modules, "py4j", None)
    with pytest.raises(DependencyError, match=r"made by Java's .* Java is asked through pyspark") as told:
        JavaLogin({**IAM, "sasl.mechanism": mechanism}).require()
    assert way in told.value.remedy


def test_a_store_of_javas_says_without_pyspark_what_reads_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "keys.jks").write_bytes(b"any")
    monkeypatch.setitem(sys.modules, "py4j", None)
    with pytest.raises(ValueError, match=r"a JKS store, which Java reads: .* pyspark"):
        with_pem({"ssl.keystore.location": str(tmp_path / "keys.jks"), "ssl.keystore.type": "JKS"})


def test_a_jvm_that_has_ended_is_replaced() -> None:
    bring([])
    line = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    login = JavaLogin({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": line})
    assert login.exchange("broker").auth_bytes() == b"\0u\0p"
    with pytest.raises(Py4JError):
        SHARED_JVM.for_logins().java.lang.System.exit(1)
    assert login.exchange("broker").auth_bytes() == b"\0u\0p"


@pytest.mark.slow
def test_the_class_of_msk_iam_signs_for_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up")
    (wanted,) = (Coordinate.parse(one) for one in OF_IAM["packages"] if "spark" not in one)
    folder = cache_folder() / "jars" / f"{wanted.name}-{wanted.version}"
    bring(resolve([wanted], folder, excluded=(*SHIPPED_WITH_SPARK, "org.apache.kafka")))
    first = json.loads(JavaLogin(IAM).exchange("b-1.c.kafka.eu-west-1.amazonaws.com").auth_bytes())
    assert first["action"] == "kafka-cluster:Connect"
    assert first["host"] == "b-1.c.kafka.eu-west-1.amazonaws.com"
    assert "/eu-west-1/kafka-cluster/" in first["x-amz-credential"]
    assert first["x-amz-signature"]
