"""Records that are deleted unread while the embedded job is down are reported by the next one, and once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.lag.packed.remembered import Remembered
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import PATIENCE_S, Rig
from tests.coordinator.lag.real import commit, create, order, produce

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.lab.cluster.broker import LabBroker

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    # A process that is killed closes nothing.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
TOPIC = "deleted-meanwhile"


def remembers(storage: Path, end: int, *, since: int) -> int:
    """When (ms) the ledger's job last asked for the end of the topic, if it was `end`; else -1."""
    path = storage / "ledger" / "snapshot.json"
    text = json.loads(path.read_bytes())["lag"].get("logs", "") if path.exists() else ""
    log = Remembered(text).log(TOPIC) if text else None
    return log.at if log is not None and log.ends == [end] and log.at > since else -1


def test_records_that_were_deleted_while_no_job_ran_are_lost_once_whatever_restarts_follow(
    lab_broker: LabBroker, tmp_path: Path
) -> None:
    create(lab_broker, NewTopic(TOPIC, 1, 1))
    produce(lab_broker, TOPIC, {0: 100})
    commit(lab_broker, "reader-of-deleted", {(TOPIC, 0): 50})
    settings = {"engine": "embedded", "web": {"enabled": False}, "ends": {"interval": "1s"}}
    rig = Rig(lab_broker.bootstrap, tmp_path / "job", settings)
    known = -1

    def asked() -> bool:
        nonlocal known
        found = remembers(rig.job.storage, 100, since=known)
        known = max(known, found)
        return found >= 0

    for life in range(4):
        with rig.job as job:
            job.wait_ready()
            assert wait_until(asked, PATIENCE_S, 0.2), job.log[-4_000:]
            if life == 1:
                rig.await_told(lambda one: one.kind is Kind.RECORDS_LOST)
            if life % 2 == 0:
                job.kill()
        if life == 0:
            order(lab_broker, lambda client: client.delete_records([TopicPartition(TOPIC, 0, 80)]))
    lost = [one for one in rig.told() if one.kind is Kind.RECORDS_LOST]
    assert [(one.group, one.details["records"]) for one in lost] == [("reader-of-deleted", 30)]
