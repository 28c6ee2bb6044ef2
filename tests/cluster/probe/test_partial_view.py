"""What the probe sees and says with Describe on a prefix of groups, not on the cluster (docs/security.md).

A real broker with TLS, SCRAM and an authorizer; two teams with a group each, of which one may be described.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest
import yaml

pytest.importorskip("cryptography", reason="cryptography is not installed")

from confluent_kafka import Consumer
from confluent_kafka.admin import AclOperation, NewTopic, ResourcePatternType, ResourceType

from rebalance_monitor.cli.main import run
from rebalance_monitor.cluster.captures.captured import SIGHTINGS
from rebalance_monitor.cluster.captures.copying import Extent, copy_topic
from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.probe.probe import take_sample
from rebalance_monitor.config.load import load
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.probe.sample import to_json
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.replay.replaying import replay_capture
from rebalance_monitor.engine.settings import detection_settings
from rebalance_monitor.lab.cluster.node import wait_until
from rebalance_monitor.lab.cluster.properties import SESSION_TIMEOUT_848_MS
from tests.cluster.support.secured import LEAST, Grant, SecuredBroker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.coordinator.probe.sample import ProbeSample

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broker,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
OURS, THEIRS, NEW = "team-orders", "other-orders", "team-848"
TEAM = Grant(AclOperation.DESCRIBE, ResourceType.GROUP, "team-", ResourcePatternType.PREFIXED)
OTHER = Grant(AclOperation.DESCRIBE, ResourceType.GROUP, "other-", ResourcePatternType.PREFIXED)
CLUSTER_CONFIGS = LEAST["cluster configs"]
GROUP_CONFIGS = Grant(
    AclOperation.DESCRIBE_CONFIGS, ResourceType.GROUP, "team-", ResourcePatternType.PREFIXED
)
PATIENCE_S, TIMEOUT_MS = 120, 60_000
SETTLED_MS = 60_000
"""Later by the clock: what has only just been written is not held against a listing."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path_factory.mktemp("secured")) as found, ExitStack() as members:
        found.add_user()
        admin = found.admin()
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result()
        for group, protocol in ((OURS, "classic"), (THEIRS, "classic"), (NEW, "consumer")):
            member = joining(found, group, **{"group.protocol": protocol})
            members.callback(member.close)
            assert wait_until(partial(joined, member), PATIENCE_S)
        yield found


def joined(member: Consumer) -> bool:
    return bool(member.poll(0.1) or member.assignment())


def joining(broker: SecuredBroker, group: str, **more: str) -> Consumer:
    """A member that gives nothing up before it is asked to by `poll`."""
    member = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "client.id": f"client-of-{group}", **more}
    )
    member.subscribe(["orders"], on_revoke=lambda *_: None)
    return member


def settings_of(broker: SecuredBroker) -> Settings:
    return load(flags={f"kafka.{name}": value for name, value in broker.scram().items()})


def glance(admin: ClusterAdmin, at: int = 0, *, listing: bool = False) -> ProbeSample:
    with ThreadPoolExecutor(2) as pool:
        return take_sample(admin, pool, at, 30.0, listing=listing)


def test_a_prefix_of_groups_is_listed_and_described_and_others_are_left_out(broker: SecuredBroker) -> None:
    broker.allow("read", "group prefix", more=[TEAM])
    with ClusterAdmin(settings_of(broker).kafka.client_properties(), TIMEOUT_MS) as admin:
        assert wait_until(lambda: glance(admin, listing=True).listed == frozenset({OURS, NEW}), PATIENCE_S)
        assert glance(admin).failures == {}
        (one,) = admin.brokers()
        told = admin.describe_groups([OURS, THEIRS], one.id)
    assert [member["client_id"] for member in told[OURS]["members"]] == [f"client-of-{OURS}"]
    assert told[THEIRS]["members"] == []


def test_groups_that_the_topic_says_are_alive_and_nobody_lists_are_counted_until_they_may_be_seen(
    broker: SecuredBroker, tmp_path: Path
) -> None:
    broker.allow("read", "group prefix", more=[TEAM])
    properties = settings_of(broker).kafka.client_properties()
    copy_topic(properties, tmp_path / "capture", Extent(until_end=True))
    later = int(time.time() * 1000) + SETTLED_MS
    with ClusterAdmin(properties, TIMEOUT_MS) as admin:
        assert wait_until(lambda: glance(admin, listing=True).listed == frozenset({OURS, NEW}), PATIENCE_S)
        looks = [glance(admin, later, listing=True)]
        broker.allow("read", "group prefix", more=[TEAM, OTHER])
        assert wait_until(lambda: THEIRS in (glance(admin, listing=True).listed or ()), PATIENCE_S)
        looks.append(glance(admin, later + 300_000, listing=True))
    (tmp_path / "capture" / SIGHTINGS).write_text("".join(f"{to_json(one)}\n" for one in looks))
    found = replay_capture(tmp_path / "capture", DetectionSettings())
    opened, resolved = (finding for finding in found if finding.kind is Kind.MONITOR_DEGRADED)
    assert (opened.causes[0].cause, opened.phase) == ("probe_partial", "opened")
    assert opened.causes[0].why == "the brokers list 2 of 3 groups that have members by the topic's records"
    assert opened.details == {"cause": "probe_partial", "seen": 2, "expected": 3, "missing": THEIRS}
    assert (resolved.phase, resolved.incident) == ("resolved", opened.id)


def test_a_rebalance_is_seen_with_its_members_only_where_the_group_may_be_described(
    broker: SecuredBroker,
) -> None:
    broker.allow("read", "group prefix", more=[TEAM])
    with ExitStack() as stack:
        for group in (OURS, THEIRS):
            # The first member is not polled now, so the barrier stays open.
            stack.callback(joining(broker, group).close)
        with ClusterAdmin(settings_of(broker).kafka.client_properties(), TIMEOUT_MS) as admin:
            assert wait_until(lambda: names(glance(admin)) == {OURS}, PATIENCE_S)
            assert wait_until(lambda: len(glance(admin).members[OURS]) == 2, PATIENCE_S)
            broker.allow("read", "group prefix", "cluster", more=[TEAM])
            assert wait_until(lambda: names(glance(admin)) == {OURS, THEIRS}, PATIENCE_S)
            seen = glance(admin)
    states = {one.group: one.state for one in seen.groups}
    assert states == dict.fromkeys((OURS, THEIRS), "PreparingRebalance")
    assert {client for _, _, client, _ in seen.members[OURS]} == {f"client-of-{OURS}"}
    assert THEIRS not in seen.members
    assert seen.failures == {}


def names(sighting: ProbeSample) -> set[str]:
    return {one.group for one in sighting.groups}


def test_without_describe_configs_session_timeouts_are_assumed_and_said_to_be(
    broker: SecuredBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_of(broker)
    (config := tmp_path / "monitor.yaml").write_text(yaml.safe_dump({"kafka": broker.scram()}))
    said: list[str] = []
    timeouts = (45_000, True), (SESSION_TIMEOUT_848_MS, True), (SESSION_TIMEOUT_848_MS, False)
    for more, expected in zip(
        ((), (CLUSTER_CONFIGS,), (CLUSTER_CONFIGS, GROUP_CONFIGS)), timeouts, strict=True
    ):
        broker.allow("read", "group prefix", more=[TEAM, *more])
        with ClusterAdmin(settings.kafka.client_properties(), TIMEOUT_MS) as admin:
            assert wait_until(partial(told, admin, settings, expected), PATIENCE_S)
        assert run(["explain", NEW, "--config", str(config)]) == 0
        said.append(capsys.readouterr().out)
    unread = "is assumed, for one of the group's own could not be read (DescribeConfigs on groups)"
    assert f"in no record: 45000 ms {unread}" in said[0]
    assert f"in no record: {SESSION_TIMEOUT_848_MS} ms {unread}" in said[1]
    assert f"in no record: {SESSION_TIMEOUT_848_MS} ms is the brokers' or configured" in said[2]


def told(admin: ClusterAdmin, settings: Settings, expected: tuple[int, bool]) -> bool:
    return detection_settings(settings.detection, admin).session_timeout(NEW, "consumer") == expected
