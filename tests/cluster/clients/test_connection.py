"""What the client's errors say, by the party that must act."""

from __future__ import annotations

import pytest
from kafka import errors

from rebalance_monitor.cluster.clients.connection import sentence


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (errors.CoordinatorLoadInProgressError("x"), "answers that it cannot do it now: CoordinatorLoad"),
        (errors.NotCoordinatorError("x"), "answers that it cannot do it now: NotCoordinator"),
        (errors.KafkaTimeoutError("x"), "No Kafka broker answers at b:1"),
        (errors.KafkaConnectionError("x"), "No Kafka broker answers at b:1"),
        (OSError("x"), "No Kafka broker answers at b:1"),
    ],
)
def test_a_broker_that_answers_not_now_is_none_that_does_not_answer(error: Exception, said: str) -> None:
    assert said in sentence(error, "b:1").what
