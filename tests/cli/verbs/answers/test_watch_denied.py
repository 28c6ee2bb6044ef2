"""`watch` with a login from a file of Kafka's own form, and without the right to read the topic.

A real broker with TLS, SCRAM and an authorizer. A group rebalances all the time: one of its members joins and
leaves again and again, the other is slow to rejoin.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("cryptography", reason="cryptography is not installed")

from confluent_kafka import Consumer
from confluent_kafka.admin import AclOperation, NewTopic, ResourceType

from rebalance_monitor.cli.main import run
from tests.cluster.support.secured import TOPIC, Grant, SecuredBroker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broker,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
DESCRIBE = Grant(AclOperation.DESCRIBE, ResourceType.TOPIC, TOPIC)


class Restless(threading.Thread):
    """A member that stays and answers late, and one that comes and goes."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self._settings = {"bootstrap.servers": servers, "group.id": "restless", "heartbeat.interval.ms": 500}
        self.ended = threading.Event()

    def run(self) -> None:
        stays = Consumer(self._settings)
        stays.subscribe(["orders"])
        while not self.ended.is_set():
            comes = Consumer(self._settings)
            comes.subscribe(["orders"])
            for _ in range(4):
                comes.poll(0.5)
                self.ended.wait(1.5)
                stays.poll(0.1)
            comes.close()
        stays.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path_factory.mktemp("secured")) as found:
        found.add_user()
        admin = found.admin()
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result()
        member = Restless(found.bootstrap)
        member.start()
        yield found
        member.ended.set()
        member.join(30)


def properties_file(broker: SecuredBroker, folder: Path) -> Path:
    properties = broker.scram()
    properties["bootstrap.servers"] = properties.pop("bootstrap_servers")
    path = folder / "client.properties"
    # In such a file a backslash escapes whatever follows.
    escaped = {name: value.replace("\\", "\\\\") for name, value in properties.items()}
    path.write_text("".join(f"{name}={value}\n" for name, value in escaped.items()), encoding="utf-8")
    return path


def test_a_login_of_kafkas_own_form_is_enough(
    broker: SecuredBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.allow("read", "group prefix", "cluster", "groups")
    path = properties_file(broker, tmp_path)
    assert run(["watch", "--command-config", str(path), "--for", "30s", "-o", "jsonl"]) == 0
    said = capsys.readouterr()
    assert "4 partitions, 1 group," in said.err
    assert "restless" in {json.loads(line)["group"] for line in said.out.splitlines()}


@pytest.mark.parametrize("grants", [[], [DESCRIBE]], ids=["nothing of the topic", "Describe alone"])
def test_without_read_it_says_so_and_shows_what_the_probe_sees(
    broker: SecuredBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str], grants: list[Grant]
) -> None:
    broker.allow("group prefix", "cluster", "groups", more=grants)
    path = properties_file(broker, tmp_path)
    assert run(["watch", "--command-config", str(path), "--for", "40s", "-o", "jsonl"]) == 0
    said = capsys.readouterr()
    assert f"on the topic {TOPIC}" in said.err
    assert "only the probe reports" in said.err
    found = [json.loads(line) for line in said.out.splitlines()]
    assert ("restless", "rebalance_in_progress") in {(one["group"], one["kind"]) for one in found}
