"""Lag of groups as the driver knows it, made by hand."""

from rebalance_monitor.coordinator.lag.measured import GroupLag, PartitionLag, TopicLag

AT = 1_795_000_000_000


def topic(records: int | None, offset: int = 100) -> TopicLag:
    age = None if records is None else 1_000 * records
    one = PartitionLag(0, offset, AT, -1 if records is None else offset + records, records, age)
    return TopicLag(records, age, int(records is None), offset, (one,))


def lag(**topics: int | None) -> GroupLag:
    found = {name: topic(records) for name, records in topics.items()}
    known = [one for one in topics.values() if one is not None]
    total = sum(known) if known else None
    age = max((1_000 * one for one in known), default=None)
    return GroupLag(AT, total, age, sum(one is None for one in topics.values()), found)
