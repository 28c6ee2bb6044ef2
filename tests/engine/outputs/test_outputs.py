"""What outlives a query on the driver, begun again by another process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rebalance_monitor.config.model import Settings
from rebalance_monitor.coordinator.probe.sample import ProbeSample
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.batch.batches import Batch, BatchKey
from rebalance_monitor.engine.driver.outputs import Outputs
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.engine.topic.facts import TopicFacts

if TYPE_CHECKING:
    from pathlib import Path

T0 = 1_795_000_000_000
FACTS = TopicFacts("__consumer_offsets", "topic", "c1", {0: 0}, {0: 0})
STABLE = {"group": "g", "state": "Stable", "generation": 3, "at": T0 - 3_600_000, "member_list": []}


class Probe:
    """Looks once: the brokers list another group than `g`."""

    dropped = 0

    def __init__(self, at: int) -> None:
        self._looks = [ProbeSample(at, brokers=((1, True),), listed=frozenset({"other"}))]

    def drain(self) -> list[ProbeSample]:
        looks, self._looks = self._looks, []
        return looks

    def start(self) -> None:
        """Look at nothing more."""

    stop = start


def told(storage: Storage) -> list[str]:
    lines = storage.jsonl.read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [f"{one['details'].get('cause')} {one['phase']}" for one in found]


@pytest.mark.parametrize("identities", ["shown", "hidden"])
def test_groups_that_the_probe_may_not_see_are_still_missed_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, identities: str
) -> None:
    off: dict[str, Any] = {"enabled": False}
    settings = Settings(web=off, outputs={"identities": identities}, audit={"every_batches": 0})
    storage = Storage(tmp_path)
    for start, groups in enumerate(({"g": STABLE}, {"other": STABLE})):
        probe = Probe(T0 + start * 60_000)
        monkeypatch.setattr("rebalance_monitor.engine.driver.outputs._probe", lambda _, probe=probe: probe)
        with Outputs(settings, storage, FACTS, DetectionSettings()) as outputs:
            outputs.recall()
            outputs.writer.apply(BatchKey("q", start), Batch(groups=dict(groups)))
        assert told(storage) == ["probe_partial opened"]
