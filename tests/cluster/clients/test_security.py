"""The least permissions of docs/security.md, on a real broker with TLS, SCRAM and an authorizer."""

from __future__ import annotations

import json
import subprocess
import sys
from struct import pack
from typing import TYPE_CHECKING

import pytest
import yaml

pytest.importorskip("cryptography", reason="cryptography is not installed")

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AclOperation,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from rebalance_monitor.cli.checks.broker_checks import REMOTE, group_values
from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.clients.properties import reader_settings
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.probe.probe import ProbeThread
from rebalance_monitor.config.load import load
from rebalance_monitor.coordinator.findings.finding import from_json
from rebalance_monitor.engine.settings import BROKER_VALUES, GROUPS_OWN, assumed, detection_settings
from rebalance_monitor.lab.cluster.node import wait_until
from tests.cluster.support.proofs import require_capture, require_probe_and_ends, require_watch
from tests.cluster.support.secured import LEAST, PASSWORD, TOPIC, Grant, SecuredBroker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rebalance_monitor.coordinator.probe.sample import ProbeSample

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broker,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
WRITE = Grant(AclOperation.WRITE, ResourceType.TOPIC, TOPIC)
ORDERS = Grant(AclOperation.DESCRIBE, ResourceType.TOPIC, "orders")
WAYS = ("scram", "mutual_tls", "jks")
MAIN = "from rebalance_monitor.cli.main import main; main()"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path_factory.mktemp("secured")) as found:
        found.add_user()
        admin = found.admin()
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result()
        consumer = Consumer({"bootstrap.servers": found.bootstrap, "group.id": "orders"})
        consumer.subscribe(["orders"])
        # Until then the group takes no commit of it.
        assert wait_until(lambda: consumer.poll(0.2) is None and bool(consumer.assignment()), 120, 0)
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        consumer.close()
        yield found


def remarks(properties: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Check -> (verdict, found and remedy) of the checks that ask the broker."""
    settings = load(flags={f"kafka.{name}": value for name, value in properties.items()})
    found: dict[str, tuple[str, str]] = {}
    with ClusterAdmin(settings.kafka.client_properties()) as admin:
        for name, check in REMOTE.items():
            try:
                result = check(admin, settings)
                verdict = "ok" if result.ok else "note" if result.optional else "problem"
                found[name] = (verdict, f"{result.found} {'' if result.ok else result.remedy}")
            except DependencyError as error:
                found[name] = ("problem", str(error))
    return found


def verb(folder: Path, kafka: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, kafka, *words), capture_output=True, text=True, check=False, timeout=300
    )


def command(folder: Path, kafka: dict[str, str], *words: str) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"kafka": kafka, "storage": {"path": str(folder / "data")}}
    (config := folder / "monitor.yaml").write_text(yaml.safe_dump(settings))
    return [sys.executable, "-c", MAIN, *words, "--config", str(config)]


@pytest.mark.parametrize(
    ("missing", "check", "verdict", "says"),
    [
        ("read", "reading", "problem", "Read on the topic __consumer_offsets"),
        ("group prefix", "source's group", "problem", "Describe on groups with the prefix rebalance-monitor"),
        ("cluster", "probe access", "note", "Describe on the cluster"),
        ("groups", "members", "note", "no Describe on 1 of 1 group asked, such as 'orders'"),
        ("cluster configs", "broker values", "note", "Grant DescribeConfigs on the cluster, or"),
        ("topic configs", "broker values", "note", f"Grant DescribeConfigs on the topic {TOPIC}, or"),
        ("group configs", "group values", "note", "no DescribeConfigs on 1 of 1 group asked"),
    ],
)
def test_one_missing_permission_is_named(
    broker: SecuredBroker, missing: str, check: str, verdict: str, says: str
) -> None:
    # Describe on all groups holds for the prefix as well.
    without = {missing, "groups"} if missing == "group prefix" else {missing}
    broker.allow(*(name for name in LEAST if name not in without))
    found = remarks(broker.scram())
    assert found[check][0] == verdict, found
    assert says in found[check][1]


def test_the_probe_sees_groups_that_it_may_not_describe(broker: SecuredBroker) -> None:
    broker.allow(*(name for name in LEAST if name != "groups"))
    settings = load(flags={f"kafka.{name}": value for name, value in broker.scram().items()})
    with ClusterAdmin(settings.kafka.client_properties()) as admin:
        one = admin.brokers()[0].id
        assert [group["group_id"] for group in admin.list_groups(one)] == ["orders"]
        assert admin.describe_groups(["orders"], one)["orders"]["members"] == []
    with ProbeThread(settings.kafka.client_properties(), 0.2) as probe:
        looks: list[ProbeSample] = []
        assert wait_until(lambda: bool(looks.extend(probe.drain()) or looks), 60)
        assert looks[0].failures == {}


@pytest.mark.parametrize("way", WAYS)
def test_watch_capture_probe_and_ends_work_by_each_login(
    broker: SecuredBroker, tmp_path: Path, way: str
) -> None:
    require_local_clients(broker, tmp_path, way)


def require_local_clients(broker: SecuredBroker, tmp_path: Path, way: str) -> None:
    # What lag is measured by is beyond the least permissions.
    broker.allow(*LEAST, more=[ORDERS])
    kafka = getattr(broker, way)()
    given = load(flags={f"kafka.{name}": value for name, value in kafka.items()}).kafka.client_properties()
    assert "4 partitions, " in require_watch(command(tmp_path, kafka, "watch", "-o", "jsonl"), tmp_path)
    copy = tmp_path / "copy"
    assert require_capture(command(tmp_path, kafka, "capture", str(copy), "--until-end", "--probe"), copy)
    require_probe_and_ends(given, "orders")


@pytest.mark.spark
def test_the_job_reads_with_the_two_grants_it_cannot_do_without_and_says_what_it_assumes(
    broker: SecuredBroker, tmp_path: Path
) -> None:
    broker.allow("read", "group prefix")
    done = verb(tmp_path, broker.scram(), "run", "--available-now")
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "data" / "findings.jsonl").read_text().splitlines()
    assert {(f.group, f.kind.value) for f in map(from_json, lines)} >= {("orders", "rebalance")}
    assert PASSWORD not in done.stderr + done.stdout
    assert said_to_be_assumed(done) == [[*sorted(BROKER_VALUES), GROUPS_OWN]]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("read", f"The topic {TOPIC} may not be described."),
        ("group prefix", "Grant Describe on groups with the prefix rebalance-monitor."),
    ],
)
def test_the_job_ends_with_a_sentence_without_either_grant_that_it_needs(
    broker: SecuredBroker, tmp_path: Path, missing: str, says: str
) -> None:
    # Describe on all groups holds for the prefix as well.
    broker.allow(*(name for name in LEAST if name not in {missing, "groups"}))
    done = verb(tmp_path, broker.scram(), "run", "--available-now")
    assert done.returncode == ExitCode.UNREACHABLE, done.stderr
    assert says in done.stderr.partition("rebalance-monitor: ")[2]


def said_to_be_assumed(done: subprocess.CompletedProcess[str]) -> list[list[str]]:
    """What each log line of the job's start lists that the brokers did not tell."""
    logged = (json.loads(line) for line in done.stderr.splitlines() if line.startswith("{"))
    return [line["assumed"] for line in logged if "DescribeConfigs" in line["event"]]


@pytest.mark.spark
@pytest.mark.parametrize("way", ["scram", "mutual_tls"])
def test_doctor_with_the_least_permissions_has_nothing_to_say(
    broker: SecuredBroker, tmp_path: Path, way: str
) -> None:
    require_doctor(broker, tmp_path, way)


def require_doctor(broker: SecuredBroker, tmp_path: Path, way: str) -> None:
    broker.allow(*LEAST)
    done = verb(tmp_path, getattr(broker, way)(), "doctor", "-o", "json")
    lines = {line["check"]: line["verdict"] for line in json.loads(done.stdout)}
    assert set(lines.values()) == {"ok"}, done.stdout
    assert lines["through Spark"] == "ok"
    assert done.returncode == 0


def test_doctor_names_the_grant_that_is_missing(broker: SecuredBroker, tmp_path: Path) -> None:
    # Describe on all groups holds for the prefix as well.
    broker.allow(*(name for name in LEAST if name not in {"group prefix", "groups"}))
    done = verb(tmp_path, broker.scram(), "doctor")
    assert done.returncode == ExitCode.PROBLEMS, done.stdout + done.stderr
    assert "Grant Describe on groups with the prefix rebalance-monitor." in done.stdout


@pytest.mark.parametrize(
    ("grants", "client", "refused"),
    [
        ((WRITE,), "__admin_client", None),
        ((WRITE,), "another", "TOPIC_EXCEPTION"),
        ((), "__admin_client", "TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_that_may_write_to_the_topic_forges_records_under_the_client_id_of_admin_clients(
    broker: SecuredBroker, grants: tuple[Grant, ...], client: str, refused: str | None
) -> None:
    broker.allow("read", more=grants)
    assert wait_until(lambda: refusal(broker, client) == refused, 120), refusal(broker, client)


def refusal(broker: SecuredBroker, client: str) -> str | None:
    """What the broker answers to a record for its offsets topic, in librdkafka's words; None: it is taken."""
    settings = load(flags={f"kafka.{name}": value for name, value in broker.scram().items()})
    producer = Producer(reader_settings(settings.kafka.client_properties()) | {"client.id": client})
    answers: list[KafkaError | None] = []
    key = b"\0\1" + b"".join(pack(">h", len(one)) + one for one in (b"forged", b"orders")) + pack(">i", 0)
    producer.produce(TOPIC, key=key, partition=0, on_delivery=lambda error, _: answers.append(error))
    assert producer.flush(30) == 0
    return answers[0].name() if answers[0] else None


def test_a_group_whose_own_session_timeout_may_not_be_read_is_named(broker: SecuredBroker) -> None:
    own = {"consumer.session.timeout.ms": "50000"}
    member = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "own", "group.protocol": "consumer"}
    )
    member.subscribe(["orders"])
    assert wait_until(lambda: bool(member.poll(0.1) or member.assignment()), 60)
    change = ConfigResource(ConfigResource.Type.GROUP, "own", incremental_configs=_set(own))
    admin = broker.admin()
    for future in admin.incremental_alter_configs([change]).values():
        future.result()
    settings = load(flags={f"kafka.{name}": value for name, value in broker.scram().items()})
    try:
        broker.allow(*LEAST)
        with ClusterAdmin(settings.kafka.client_properties()) as monitor:
            assert wait_until(lambda: monitor.group_session_timeouts() == {"own": 50_000}, 120)
            assert group_values(monitor, settings).ok
            assert assumed(detection_settings(settings.detection, monitor)) == []
        broker.allow(*(name for name in LEAST if name != "group configs"))
        with ClusterAdmin(settings.kafka.client_properties()) as monitor:
            assert wait_until(lambda: monitor.group_session_timeouts() == {"own": None}, 120)
            assert assumed(detection_settings(settings.detection, monitor)) == [GROUPS_OWN]
            said = group_values(monitor, settings)
        assert (said.ok, said.optional, "such as own:" in said.found) == (False, True, True), said
    finally:
        member.close()


def _set(values: dict[str, str]) -> list[ConfigEntry]:
    how = AlterConfigOpType.SET
    return [ConfigEntry(name, value, incremental_operation=how) for name, value in values.items()]
