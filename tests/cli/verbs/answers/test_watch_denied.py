"""`watch` with a login from a file of Kafka's own form, and without the right to read the topic.

A real broker with TLS, SCRAM and an authorizer. A group rebalances all the time: one of its members joins and
leaves again and again, the other is slow to rejoin.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("cryptography", reason="cryptography is not installed")

from confluent_kafka import Consumer
from confluent_kafka.admin import AclOperation, NewTopic, ResourceType

from rebalance_monitor.lab.cluster.node import wait_until
from tests.cluster.support.secured import TOPIC, Grant, SecuredBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broker,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
PROGRAM = str(Path(sys.executable).with_name("rebalance-monitor"))
PATIENCE_S = 180
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


def watched(broker: SecuredBroker, folder: Path, is_enough: Callable[[list[str]], bool]) -> str:
    """Watch until the findings shown are enough; return what else was said."""
    shown, said = folder / "shown", folder / "said"
    command = [PROGRAM, "watch", "--command-config", str(properties_file(broker, folder)), "-o", "jsonl"]
    with (
        shown.open("w") as out,
        said.open("w") as err,
        subprocess.Popen(command, stdout=out, stderr=err) as process,
    ):
        try:
            found = wait_until(lambda: is_enough(shown.read_text().splitlines()), PATIENCE_S)
        finally:
            process.send_signal(signal.SIGINT)
            ended = process.wait(PATIENCE_S)
    assert (found, ended) == (True, 0), (shown.read_text(), said.read_text())
    return said.read_text()


def test_a_login_of_kafkas_own_form_is_enough(broker: SecuredBroker, tmp_path: Path) -> None:
    broker.allow("read", "group prefix", "cluster", "groups")
    said = watched(broker, tmp_path, lambda shown: any('"restless"' in line for line in shown))
    assert "4 partitions, 1 group," in said


@pytest.mark.parametrize("grants", [[], [DESCRIBE]], ids=["nothing of the topic", "Describe alone"])
def test_without_read_it_says_so_and_shows_what_the_probe_sees(
    broker: SecuredBroker, tmp_path: Path, grants: list[Grant]
) -> None:
    broker.allow("group prefix", "cluster", "groups", more=grants)
    seen = '"restless"', '"rebalance_in_progress"'
    said = watched(broker, tmp_path, lambda shown: any(all(w in line for w in seen) for line in shown))
    assert f"on the topic {TOPIC}" in said
    assert "Then start `watch` again. Until then only the probe reports" in said
    assert "without Describe on the cluster" not in said


def test_without_describe_on_the_cluster_too_it_says_that_the_probe_may_see_no_group(
    broker: SecuredBroker, tmp_path: Path
) -> None:
    broker.allow()
    config = str(properties_file(broker, tmp_path))
    command = [PROGRAM, "watch", "--command-config", config, "--for", "5s", "-o", "jsonl"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "without Describe on the cluster it sees only the groups that may be described" in ended.stderr
