"""A partition of the offsets topic that loses its only broker does not blind the embedded job for others."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.engine.embedded.engine import AWAY_S
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import Rig

if TYPE_CHECKING:
    from pathlib import Path

    from rebalance_monitor.coordinator.findings.finding import Finding

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
TOPIC = "led-by-halves-of-a-job"


def test_a_job_goes_on_without_the_partition_and_says_so_until_it_has_a_leader(tmp_path: Path) -> None:
    with LabBroker(nodes=3) as cluster:
        first, second, _ = cluster.nodes
        places = [[second.address.node], [first.address.node]]
        client = AdminClient({"bootstrap.servers": cluster.bootstrap})
        client.create_topics([NewTopic(TOPIC, 2, replica_assignment=places)])[TOPIC].result()
        settings = {"engine": "embedded", "web": {"enabled": False}, "source": {"topic": TOPIC}}
        rig = Rig(cluster.bootstrap, tmp_path / "job", settings)

        def says(phase: str) -> Finding:
            return rig.await_told(lambda one: (one.details.get("cause"), one.phase) == (Cause.BLIND, phase))

        with rig.job as job:
            job.wait_ready()
            first.kill()
            assert f"no broker leads 1 partition of {TOPIC} (1)" in says("opened").causes[0].why
            since = monotonic()
            assert wait_until(lambda: monotonic() > since + 2 * AWAY_S, 60, 1)
            first.start()
            says("resolved")
        # It followed the topic once: nothing ended it.
        assert job.log.count('"query": "') == 1, job.log[-4_000:]
