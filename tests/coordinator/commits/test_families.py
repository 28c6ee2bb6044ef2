"""Client families, by the shape of what they send when they join."""

from struct import pack

import pytest

from rebalance_monitor.coordinator.commits.client_families import FAMILIES, recognise
from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.decoders.embedded.consumer import Subscription
from tests.coordinator.support.timeline import Client, Topic, findings


def joins(
    user_data: bytes | None, *, version: int = 3, rack: str | None = None, notes: tuple[str, ...] = ()
) -> Subscription:
    return Subscription(
        version=version,
        topics=("orders",),
        user_data=user_data,
        owned_partitions=(),
        generation_id=-1,
        rack_id=rack,
        notes=notes,
    )


def family(protocol: str, sent: Subscription) -> str:
    return recognise("billing", 45_000, 300_000, "consumer", protocol, sent)


def test_cooperative_sticky_java_sends_its_generation_alone() -> None:
    assert family("cooperative-sticky", joins(pack(">i", 7))) == "java"
    assert family("cooperative-sticky", joins(pack(">i", -1))) == "java"


def test_partitions_before_the_generation_are_librdkafkas_with_an_empty_rack_and_franz_gos_without() -> None:
    """What both send from their second generation on; for `sticky` Java sends that, too."""
    user_data = pack(">ii", 0, 7)
    assert family("cooperative-sticky", joins(user_data, rack="")) == "librdkafka"
    assert family("cooperative-sticky", joins(user_data)) == "franz-go"
    assert family("sticky", joins(user_data)) == "unknown"


def test_the_first_cooperative_sticky_subscription_distinguishes_java_librdkafka_and_franz_go() -> None:
    """Java's generation is -1 then; of the others one sends nothing, the other no partitions."""
    first = {"java": pack(">i", -1), "librdkafka": b"", "franz-go": pack(">i", 0)}
    assert all(family("cooperative-sticky", joins(sent)) == name for name, sent in first.items())


def test_range_without_user_data_is_java() -> None:
    assert family("range", joins(None)) == "java"
    assert family("range", joins(b"")) == "librdkafka"


@pytest.mark.parametrize("client_id", ["consumer-orders-1", "orders-svc"])
def test_a_client_that_is_called_a_consumer_is_javas_only_if_it_sends_what_java_does(client_id: str) -> None:
    def told(session: int, rebalance: int, sent: Subscription) -> str:
        return recognise(client_id, session, rebalance, "consumer", "range", sent)

    assert told(45_000, 300_000, joins(b"")) == "librdkafka"
    assert told(10_000, 10_000, joins(b"", version=0)) == "aiokafka"
    assert told(45_000, 300_000, joins(None)) == "java"
    old = told(10_000, 300_000, joins(b"", version=0))
    assert old == ("java" if client_id.startswith("consumer-") else "kafka-python")


def test_a_default_client_id_of_another_client_wins_over_the_shape() -> None:
    assert recognise("rdkafka-1", 45_000, 300_000, "consumer", "range", joins(None)) == "librdkafka"


# Pairs of session and rebalance timeout that are some client's defaults, and may be anybody's choice.
DEFAULTS = {"sarama": (10_000, 60_000), "franz-go": (45_000, 60_000), "kafkajs": (30_000, 60_000)}


@pytest.mark.parametrize("limits", [*DEFAULTS.values(), (30_000, 30_000)])
def test_timeouts_that_are_another_clients_defaults_do_not_make_java_that_client(
    limits: tuple[int, int],
) -> None:
    assert recognise("orders-svc", *limits, "consumer", "range", joins(None)) == "java"
    alone = joins(pack(">i", 7))
    assert recognise("orders-svc", *limits, "consumer", "cooperative-sticky", alone) == "java"
    assert recognise("orders-svc", *limits, "consumer", "range", joins(b"")) == "librdkafka"
    given = recognise("orders-svc", *limits, "consumer", "range", joins(b"", version=0))
    assert given in {"kafka-python", "aiokafka"}


def test_timeouts_identify_clients_with_an_ambiguous_shape() -> None:
    sticky = joins(pack(">ii", 0, 7), version=1)
    assert recognise("svc", *DEFAULTS["franz-go"], "consumer", "cooperative-sticky", sticky) == "franz-go"
    own = joins(b"", version=0)
    assert recognise("svc", *DEFAULTS["kafkajs"], "consumer", "MyAssigner", own) == "kafkajs"
    assert recognise("svc", *DEFAULTS["kafkajs"], "consumer", "range", None) == "kafkajs"


@pytest.mark.parametrize("limits", [(45_000, 300_000), *DEFAULTS.values(), (30_000, 30_000)])
def test_the_version_distinguishes_go_clients_from_java_whatever_their_timeouts(
    limits: tuple[int, int],
) -> None:
    """sarama sends version 0, kafka-go version 1 without the partitions that it owns."""
    cut = joins(None, version=1, notes=("version 1 ends before ownedPartitions",))
    told = [recognise("svc", *limits, "consumer", "range", one) for one in (joins(None, version=0), cut)]
    assert told == ["sarama", "kafka-go"]
    newer = [recognise("svc", *limits, "consumer", "range", joins(None, version=at)) for at in (1, 2, 3)]
    assert newer == ["java"] * 3


@pytest.mark.parametrize("session", [45_000, 30_000, 10_000])
@pytest.mark.parametrize("client_id", ["orders-svc", "consumer-g-1"])
def test_a_breach_of_a_poll_interval_of_a_minute_is_published_whatever_the_client_is_called(
    client_id: str, session: int
) -> None:
    limits = {"session": session, "rebalance": 60_000}
    a, b = Client("a-1", (0, 1), client_id, **limits), Client("b-1", (2,), client_id, "/10.0.0.2", **limits)
    topic = Topic()
    topic.generation(0, 1, [a, b])
    topic.commits(5_000, 362_000, a, every=5_000)
    topic.commits(5_000, 300_000, b, every=5_000)
    topic.generation(362_500, 2, [a])
    named = [f for f in findings(topic.sorted()) if f.kind is Kind.POLL_INTERVAL_EXCEEDED]
    assert [entry.cause for finding in named for entry in finding.causes[:1]] == [
        Cause.POLL_INTERVAL_EXCEEDED
    ]


def test_a_client_that_checks_for_a_breach_with_its_heartbeats_notices_it_up_to_one_later() -> None:
    kafka_python, java = FAMILIES["kafka-python"], FAMILIES["java"]
    assert [kafka_python.poll_late(session) for session in (6_000, 45_000)] == [2_000, 3_000]
    assert [java.poll_late(session) for session in (6_000, 45_000)] == [100, 100]
