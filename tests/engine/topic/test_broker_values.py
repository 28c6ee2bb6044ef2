"""What detection takes from the brokers, asked again while the job runs."""

from __future__ import annotations

import time
from typing import Any, Self

import pytest

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.config.detection import Detection
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.engine.batch.batches import Batch
from rebalance_monitor.engine.driver.parts import Parts
from rebalance_monitor.engine.topic import asking
from rebalance_monitor.engine.topic.broker_values import BrokerValues
from tests.engine.test_settings import Brokers

ANSWERS: list[Brokers | None] = []


class Admin(Brokers):
    """The next answer of `ANSWERS`; None is a broker that is away."""

    def __init__(self, _properties: object) -> None:
        answer = ANSWERS.pop(0) if ANSWERS else Brokers()
        if answer is None:
            raise DependencyError("away", "")
        super().__init__(answer.retention, answer.largest, answer.session, answer.share, answer.own)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""


def asked(monkeypatch: pytest.MonkeyPatch, *answers: Brokers | None, hurry: bool) -> DetectionSettings | None:
    monkeypatch.setattr(asking, "ClusterAdmin", Admin)
    ANSWERS[:] = answers
    usual = DetectionSettings(offsets_retention_ms=1_000, max_message_bytes=2_000)
    every_s = 60.0 if hurry else 0.01
    with BrokerValues({}, Detection(), usual, every_s, soon_s=0.01) as values:
        if hurry:
            values.hurry()
        until, found = time.monotonic() + 10, None
        while found is None and time.monotonic() < until:
            found = values.take()
            time.sleep(0.01)
        assert values.take() is None
        return found


@pytest.mark.parametrize("hurry", [True, False])
def test_a_session_timeout_that_a_group_has_got_is_taken_once(
    monkeypatch: pytest.MonkeyPatch, *, hurry: bool
) -> None:
    found = asked(monkeypatch, Brokers(own={"g": 9_000}), hurry=hurry)
    assert found is not None
    assert found.session_timeouts == (("g", 9_000),)


@pytest.mark.parametrize("hurry", [True, False])
def test_brokers_that_are_away_are_asked_again_and_as_soon(
    monkeypatch: pytest.MonkeyPatch, *, hurry: bool
) -> None:
    found = asked(monkeypatch, None, None, Brokers(own={"g": 9_000}), hurry=hurry)
    assert found is not None


def test_only_groups_whose_session_timeout_is_in_no_record_are_worth_a_question() -> None:
    parts = Parts(DetectionSettings(), "c1", list)
    told: list[bool] = []
    for groups in ({"c": "classic"}, {"k": "consumer"}, {"k": "consumer"}, {"s": "share"}):
        summaries: dict[str, dict[str, Any]] = {name: {"group_type": kind} for name, kind in groups.items()}
        parts._learn(Batch(groups=summaries))
        told.append(parts.has_new_groups())
    assert told == [False, True, False, True]
