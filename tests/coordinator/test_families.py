"""Client families, by the shape of what they send when they join."""

from struct import pack

from rebalance_monitor.coordinator.families import recognise
from rebalance_monitor.decoders.embedded.consumer import Subscription


def joins(user_data: bytes | None, *, version: int = 3) -> Subscription:
    return Subscription(
        version=version,
        topics=("orders",),
        user_data=user_data,
        owned_partitions=(),
        generation_id=-1,
        rack_id=None,
        notes=(),
    )


def family(protocol: str, sent: Subscription) -> str:
    return recognise("billing", 45_000, 300_000, "consumer", protocol, sent)


def test_cooperative_sticky_java_sends_its_generation_alone() -> None:
    assert family("cooperative-sticky", joins(pack(">i", 7))) == "java"
    assert family("cooperative-sticky", joins(pack(">i", -1))) == "java"


def test_partitions_before_the_generation_are_not_javas() -> None:
    """What librdkafka sends from its second generation on; for `sticky` Java sends that, too."""
    sent = joins(pack(">ii", 0, 7))
    assert family("cooperative-sticky", sent) == "unknown"
    assert family("sticky", sent) == "unknown"


def test_range_tells_java_by_sending_nothing() -> None:
    assert family("range", joins(None)) == "java"
    assert family("range", joins(b"")) == "librdkafka"
