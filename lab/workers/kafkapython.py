"""A worker on kafka-python 3: classic groups only."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError

from rebalance_monitor.lab.workers.flags import parse
from rebalance_monitor.lab.workers.loop import live

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka import TopicPartition

    from rebalance_monitor.lab.workers.flags import Flags
    from rebalance_monitor.lab.workers.loop import Journal

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library is untyped
    """Writes every assignment to the journal."""

    def __init__(self, client: KafkaPythonClient, journal: Journal) -> None:
        self._client = client
        self._journal = journal

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Log the partitions that were assigned."""
        self._log_partitions("assigned", assigned)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Log the partitions that were revoked."""
        self._log_partitions("revoked", revoked)

    def _log_partitions(self, event: str, parts: Iterable[TopicPartition]) -> None:
        names = sorted(f"{part.topic}-{part.partition}" for part in parts)
        self._journal.write_event(event, member=self._client.member(), partitions=names)


class _PollTimeout(logging.Handler):
    """Turns the client's own warning about a poll timeout into a journal event."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(logging.WARNING)
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        """Write to the journal if the record is that warning."""
        if "poll timeout has expired" in record.getMessage():
            self._journal.write_event("poll_exceeded", error=record.getMessage())


class KafkaPythonClient:
    """kafka-python behind the worker's `Client`."""

    def __init__(self, flags: Flags, journal: Journal) -> None:
        self._journal = journal
        if not logging.getLogger("kafka").handlers:
            logging.getLogger("kafka").addHandler(_PollTimeout(journal))
        optional = {
            "client_id": flags.client_id,
            "group_instance_id": flags.instance_id,
            "fetch_max_wait_ms": flags.fetch_ms,
        }
        self._consumer = KafkaConsumer(
            bootstrap_servers=flags.bootstrap,
            group_id=flags.group,
            enable_auto_commit=flags.commit == "auto",
            auto_commit_interval_ms=flags.commit_ms,
            auto_offset_reset="earliest",
            session_timeout_ms=flags.session_ms,
            heartbeat_interval_ms=flags.heartbeat_ms,
            max_poll_interval_ms=flags.poll_ms,
            partition_assignment_strategy=[ASSIGNORS[flags.assignor]],
            metadata_max_age_ms=flags.metadata_ms,
            max_poll_records=1 if flags.commit == "record" else 500,
            **{key: value for key, value in optional.items() if value},
        )
        self.subscribe(flags.topic_list)

    def subscribe(self, topics: list[str]) -> None:
        """Subscribe to topics, or to one pattern."""
        listener = _Listener(self, self._journal)
        if topics[0].startswith("^"):
            self._consumer.subscribe(pattern=topics[0], listener=listener)
        else:
            self._consumer.subscribe(topics=topics, listener=listener)

    def poll(self, timeout_s: float) -> int:
        """Take what is there."""
        return sum(map(len, self._consumer.poll(timeout_ms=int(timeout_s * 1000)).values()))

    def commit(self) -> None:
        """Commit positions; a refusal of the broker is logged, not raised."""
        try:
            self._consumer.commit()
        except KafkaError as error:
            self._journal.write_event("commit_refused", error=str(error), member=self.member())

    def unsubscribe(self) -> None:
        """Leave the group."""
        self._consumer.unsubscribe()

    def member(self) -> str:
        """Give the member id; the library offers no public way."""
        generation = getattr(getattr(self._consumer, "_coordinator", None), "_generation", None)
        return str(getattr(generation, "member_id", "") or "")

    def obey(self, command: list[str]) -> bool:
        """Know no command of its own."""
        return not command

    def close(self) -> None:
        """Leave and close."""
        self._consumer.close()


def main() -> None:
    """Run one worker."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    live(KafkaPythonClient, parse())


if __name__ == "__main__":
    main()
