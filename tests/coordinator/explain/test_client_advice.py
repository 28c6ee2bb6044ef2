"""Advice that depends on the client library: nothing is named that it does not have."""

from dataclasses import replace

import pytest

from tests.coordinator.explain.test_advice import about, advised
from tests.coordinator.support.timeline import Client, Topic


def churning(client_id: str, session: int, rebalance: int) -> Topic:
    """One member stays, the other of its kind goes and comes back, six times."""
    topic = Topic()
    stays, back = (Client(f"m{i}", (i,), client_id, session=session, rebalance=rebalance) for i in (0, 1))
    for loop in range(7):
        topic.generation(loop * 60_000, 2 * loop + 1, [stays])
        topic.generation(loop * 60_000 + 20_000, 2 * loop + 2, [stays, replace(back, member_id=f"n{loop}")])
    return topic


@pytest.mark.parametrize(
    ("client_id", "timeouts", "static", "assignor"),
    [
        ("consumer-g-1", (45_000, 300_000), "", ", in two roll-outs"),
        (
            "rdkafka",
            (45_000, 300_000),
            "",
            ", with all members stopped: librdkafka cannot mix it with another assignor",
        ),
        ("kgo", (45_000, 60_000), "", ", in two roll-outs"),
        ("sarama", (10_000, 60_000), "", None),
        ("aiokafka-0.12", (10_000, 10_000), "", None),
        ("p@h (github.com/segmentio/kafka-go)", (30_000, 30_000), None, None),
        ("kafkajs", (30_000, 60_000), None, None),
        (
            "kafka-python-3",
            (30_000, 300_000),
            ", if the client supports it",
            ", in two roll-outs, if all its clients support it",
        ),
    ],
)
def test_no_client_is_advised_a_setting_that_its_library_does_not_have(
    client_id: str, timeouts: tuple[int, int], static: str | None, assignor: str | None
) -> None:
    told = advised(churning(client_id, *timeouts))
    remedy = "set it per process, and session.timeout.ms above the time a restart takes"
    wanted = [] if static is None else [remedy + static]
    assert [one["advice"] for one in about(told, "group.instance.id")] == wanted
    wanted = [] if assignor is None else ["change to cooperative-sticky" + assignor]
    assert [one["advice"] for one in about(told, "partition.assignment.strategy")] == wanted


@pytest.mark.parametrize(
    ("client_id", "setting"),
    [("consumer-g-1", "a poll (max.poll.records),"), ("kafka-python-3", "(max_poll_records),")],
)
def test_the_setting_for_the_records_of_a_poll_is_the_clients_own(client_id: str, setting: str) -> None:
    assert setting in stalled(client_id)


def test_a_client_without_a_setting_for_the_records_of_a_poll_is_advised_none() -> None:
    assert "fewer records a poll, so" in stalled("rdkafka")


def stalled(client_id: str) -> str:
    """Advice on the poll interval to a member that was near it."""
    topic, slow = Topic(), Client("m-1", (0,), client_id, session=45_000, rebalance=10_000)
    topic.generation(0, 1, [slow])
    topic.commits(1_000, 3_000, slow, moving=1)
    topic.commit(10_000, {0: 500})
    (told,) = about(advised(topic), "max.poll.interval.ms")
    return told["advice"]
