"""The state is lost while an incident is open: it is not published anew, and its end is published once."""

from __future__ import annotations

import json
import shutil
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import Consumer

from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from tests.alerts.support.fakes import WebhookFake
from tests.chaos.support.rig import PATIENCE_S, TOPIC, Rig, join, of_faults

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = of_faults(600 + 4 * PATIENCE_S)
GROUP = "must-not-be-empty"


@contextmanager
def member(rig: Rig, group: str) -> Iterator[None]:
    """A member of the group that has partitions, until it leaves."""
    consumer = Consumer({"bootstrap.servers": rig.bootstrap, "group.id": group})
    consumer.subscribe([TOPIC])
    join(consumer)
    yield
    consumer.close()


def told(hook: WebhookFake) -> list[tuple[str, str]]:
    """(phase, severity) of each notification about the group's emptiness, in their order."""
    with hook.lock:
        bodies: list[dict[str, Any]] = [json.loads(call.body) for call in hook.calls]
    return [
        (body["phase"], body["labels"]["severity"])
        for body in bodies
        if body["labels"].get("group") == GROUP and body["labels"].get("alertname") == "group_empty"
    ]


def test_an_open_incident_is_published_once_and_ends_once_when_the_state_is_lost(
    tmp_path: Path,
) -> None:
    with LabBroker(offsets_partitions=8, folder=tmp_path / "broker") as broker, WebhookFake() as hook:
        alerts = {
            "receivers": [{"name": "hook", "webhook": {"url": hook.url, "per_minute": 600}}],
            "route": {"receiver": "hook", "group_wait": "0s", "group_by": ["group", "alertname"]},
            "minimum_severity": "info",
        }
        settings = {"alerts": alerts, "detection": {"always_on": [GROUP]}}
        rig = Rig(broker.bootstrap, tmp_path / "job", settings)
        with rig.job:
            rig.job.wait_ready()
            with member(rig, GROUP):
                rig.completed(GROUP)
            assert wait_until(lambda: told(hook) == [("opened", "critical")], PATIENCE_S), hook.calls
            rig.job._process.send_signal(signal.SIGTERM)
            assert wait_until(lambda: not rig.job.alive, PATIENCE_S)
        shutil.rmtree(rig.job.storage / "state")
        with rig.job:
            rig.await_told(lambda f: f.details.get("cause") == "state_rebuilt")
            # A finding of another group shows that the job has read beyond what it had published.
            rig.pulse("another")
            rig.completed("another")
            assert told(hook) == [("opened", "critical")]
            with member(rig, GROUP):
                assert wait_until(lambda: len(told(hook)) > 1, PATIENCE_S), rig.job.log[-3_000:]
                rig.pulse("yet-another")
                rig.completed("yet-another")
                assert [phase for phase, _ in told(hook)] == ["opened", "resolved"]
            rig.job.require()
    found = [f for f in rig.told() if f.kind == "group_empty" and f.group == GROUP]
    # A new state says once that the group stands empty, under the incident that is open.
    assert [f.phase for f in found if f.incident == found[0].incident] == ["opened", "updated", "resolved"]
