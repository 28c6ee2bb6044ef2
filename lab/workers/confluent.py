"""A worker on confluent-kafka (librdkafka): classic groups, and KIP-848 with `--protocol consumer`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from rebalance_monitor.lab.workers.flags import parse
from rebalance_monitor.lab.workers.loop import live

if TYPE_CHECKING:
    from rebalance_monitor.lab.workers.flags import Flags
    from rebalance_monitor.lab.workers.loop import Journal


def configuration(flags: Flags) -> dict[str, object]:
    """Give librdkafka's properties for these flags."""
    common: dict[str, object] = {
        "bootstrap.servers": flags.bootstrap,
        "group.id": flags.group,
        "enable.auto.commit": flags.commit == "auto",
        "auto.commit.interval.ms": flags.commit_ms,
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": flags.metadata_ms,
    }
    if flags.client_id:
        common["client.id"] = flags.client_id
    if flags.instance_id:
        common["group.instance.id"] = flags.instance_id
    if flags.fetch_ms:
        common["fetch.wait.max.ms"] = flags.fetch_ms
    common["max.poll.interval.ms"] = flags.poll_ms
    if flags.protocol == "consumer":
        # KIP-848 sessions and heartbeats are the broker's to set.
        return {**common, "group.protocol": "consumer"}
    return {
        **common,
        # librdkafka refuses a poll interval below its session timeout.
        "session.timeout.ms": flags.session_ms,
        "heartbeat.interval.ms": flags.heartbeat_ms,
        "partition.assignment.strategy": flags.assignor,
    }


class ConfluentClient:
    """confluent-kafka behind the worker's `Client`."""

    def __init__(self, flags: Flags, journal: Journal) -> None:
        self._journal = journal
        self._consumer = Consumer(configuration(flags))
        self._most = 1 if flags.commit == "record" else 500
        if flags.mode == "assign":
            self._assign(flags.topic_list)
        else:
            self.subscribe(flags.topic_list)

    def _assign(self, topics: list[str]) -> None:
        known = self._consumer.list_topics(timeout=20).topics
        parts = [TopicPartition(name, number) for name in topics for number in known[name].partitions]
        self._consumer.assign(parts)

    def subscribe(self, topics: list[str]) -> None:
        """Subscribe, and log every assignment."""
        self._consumer.subscribe(
            topics,
            on_assign=lambda _, parts: self._log_partitions("assigned", parts),
            on_revoke=lambda _, parts: self._log_partitions("revoked", parts),
            on_lost=lambda _, parts: self._log_partitions("lost", parts),
        )

    def _log_partitions(self, event: str, parts: list[TopicPartition]) -> None:
        names = sorted(f"{part.topic}-{part.partition}" for part in parts)
        self._journal.write_event(event, member=self.member(), partitions=names)

    def poll(self, timeout_s: float) -> int:
        """Take what is there, up to 500 records."""
        good = 0
        for message in self._consumer.consume(self._most, timeout=timeout_s):
            error = message.error()
            if error is None:
                good += 1
            else:
                self._complain(error)
        return good

    def _complain(self, error: KafkaError) -> None:
        exceeded = error.code() == KafkaError._MAX_POLL_EXCEEDED  # noqa: SLF001 - librdkafka's own name
        self._journal.write_event(
            "poll_exceeded" if exceeded else "error", error=str(error.str()), member=self.member()
        )

    def commit(self) -> None:
        """Commit positions; a refusal of the broker is logged, not raised."""
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._NO_OFFSET:  # noqa: SLF001 - nothing is new
                return
            self._journal.write_event("commit_refused", error=str(error), member=self.member())

    def unsubscribe(self) -> None:
        """Leave the group."""
        self._consumer.unsubscribe()

    def member(self) -> str:
        """Give the member id."""
        return str(self._consumer.memberid() or "")

    def obey(self, command: list[str]) -> bool:
        """Know no command of its own."""
        return not command

    def close(self) -> None:
        """Leave and close."""
        self._consumer.close()


def main() -> None:
    """Run one worker."""
    live(ConfluentClient, parse())


if __name__ == "__main__":
    main()
