"""A receiver of notifications that is away: the others are notified, and what was due arrives, once."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import free_ports, wait_until
from tests.alerts.support.fakes import WebhookFake
from tests.chaos.support.rig import PATIENCE_S, Rig, of_faults

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = of_faults(1_200 + 6 * PATIENCE_S)


def receiver(name: str, url: str) -> dict[str, object]:
    return {"name": name, "webhook": {"url": url, "per_minute": 600}}


def bodies(hook: WebhookFake) -> list[dict[str, Any]]:
    with hook.lock:
        return [json.loads(call.body) for call in hook.calls]


def opened(hook: WebhookFake) -> Counter[str]:
    """Group -> how often an incident of it was opened."""
    told = [body["labels"].get("group", "") for body in bodies(hook) if body["phase"] == "opened"]
    return Counter(filter(None, told))


def of_failing(hook: WebhookFake, phase: str) -> list[str]:
    """The texts that notified this receiver, in this phase, that the other one fails."""
    texts = [json.dumps(body) for body in bodies(hook) if body["phase"] == phase]
    return [text for text in texts if "sink_failing" in text]


def test_a_dead_destination_is_published_stops_nothing_and_gets_what_was_due_once(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with LabBroker(offsets_partitions=8) as broker, WebhookFake() as works:
        alerts = {
            "receivers": [receiver("dead", f"http://127.0.0.1:{port}/"), receiver("works", works.url)],
            "route": {"receiver": "dead", "group_wait": "0s", "group_by": ["group"]},
            "minimum_severity": "info",
            "sink_failing_after": "5s",
        }
        rig = Rig(broker.bootstrap, tmp_path, {"alerts": alerts})
        with rig.job:
            rig.job.wait_ready()
            rig.pulse("unheard")
            rig.completed("unheard")
            found = rig.await_told(lambda f: f.details.get("cause") == "sink_failing" and f.phase == "opened")
            assert "dead" in found.causes[0].why
            assert wait_until(lambda: bool(of_failing(works, "opened")), PATIENCE_S), bodies(works)
            # The group's own incident goes where its route leads, and nowhere else.
            assert opened(works)["unheard"] == 0
            rig.require_truth()
            with WebhookFake(port) as back:
                assert wait_until(lambda: opened(back)["unheard"] > 0, PATIENCE_S), rig.job.log[-3_000:]
                rig.pulse("heard")
                assert wait_until(lambda: opened(back)["heard"] > 0, PATIENCE_S), rig.job.log[-3_000:]
                assert wait_until(lambda: "sink_failing resolved" in rig.health(), PATIENCE_S)
                assert wait_until(lambda: bool(of_failing(works, "resolved")), PATIENCE_S), bodies(works)
                rig.require_truth()
                rig.job.require()
                assert opened(back) == {"unheard": 1, "heard": 1}
