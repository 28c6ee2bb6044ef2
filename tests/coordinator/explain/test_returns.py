"""Clients that come back: the order of records tells a restart from a process that lives on."""

from rebalance_monitor.coordinator.explain.returns import How, returns_of
from tests.coordinator.support.timeline import Client, Topic, findings

STAYS = Client("s-1", (1,), "steady", "/10.0.0.9")


def member(name: str, client: str = "worker", host: str = "/10.0.0.1") -> Client:
    return Client(name, (0,), client, host)


def ways(old: Client, new: Client, *, after: int, last: int = 20_000) -> list[How]:
    """How a client came back that committed until `last`; `after`: ms from its removal to its return."""
    topic = Topic()
    topic.generation(0, 1, [old, STAYS])
    topic.commits(1_000, last, old)
    topic.commits(1_000, 40_000, STAYS)
    gone = last + 6_000
    if after:
        topic.generation(gone, 2, [STAYS])
    topic.generation(gone + after, 3 if after else 2, [STAYS, new])
    return [one.how for one in returns_of(findings(topic.sorted()))]


def test_that_joins_before_the_old_session_has_ended_was_restarted() -> None:
    assert ways(member("w-1"), member("w-2"), after=0) == [How.RESTARTED]


def test_that_joins_after_it_may_have_lived_on() -> None:
    assert ways(member("w-1"), member("w-2"), after=5_000) == [How.EXPIRED]


def test_a_number_of_java_s_client_id_that_went_up_is_the_same_process() -> None:
    old, new = member("c-1", "consumer-g-1"), member("c-2", "consumer-g-2")
    assert ways(old, new, after=5_000) == [How.LIVES]
    assert ways(new, member("c-3", "consumer-g-1"), after=5_000) == [How.EXPIRED]


def test_another_host_is_another_process_and_a_pod_prefix_is_no_evidence() -> None:
    assert ways(member("w-1"), member("w-2", host="/10.0.0.2"), after=5_000) == []
    assert ways(member("w-1", "web-7f9c-1"), member("w-2", "web-7f9c-2"), after=5_000) == []


def test_a_thread_of_kafka_streams_with_another_number_took_the_place_of_one_that_died() -> None:
    one, two = (f"app-StreamThread-{number}-consumer" for number in (1, 2))
    assert ways(member("t-1", one), member("t-2", two), after=0) == [How.THREAD]
    assert ways(member("t-1", one), member("t-2", one), after=0) == [How.RESTARTED]
