"""A worker on aiokafka: classic groups only.

Its event loop runs in a thread, so a stalled application does not stall it: it goes on committing and
heartbeating, as in a service that awaits something slow.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

from rebalance_monitor.lab.workers.flags import parse
from rebalance_monitor.lab.workers.loop import live

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from aiokafka import TopicPartition

    from rebalance_monitor.lab.workers.flags import Flags
    from rebalance_monitor.lab.workers.loop import Journal

T = TypeVar("T")
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library is untyped
    """Writes every assignment to the journal."""

    def __init__(self, client: AioClient, journal: Journal) -> None:
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


class AioClient:
    """aiokafka behind the worker's `Client`."""

    def __init__(self, flags: Flags, journal: Journal) -> None:
        self._journal = journal
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._consumer = self._await(self._build(flags))
        self.subscribe(flags.topic_list)
        self._await(self._consumer.start())

    @staticmethod
    async def _build(flags: Flags) -> AIOKafkaConsumer:
        optional = {
            "client_id": flags.client_id,
            "group_instance_id": flags.instance_id,
            "fetch_max_wait_ms": flags.fetch_ms,
        }
        return AIOKafkaConsumer(
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
            max_poll_records=1 if flags.commit == "record" else None,
            **{key: value for key, value in optional.items() if value},
        )

    def _await(self, what: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result()

    def subscribe(self, topics: list[str]) -> None:
        """Subscribe to topics, or to one pattern."""
        listener = _Listener(self, self._journal)
        if topics[0].startswith("^"):
            self._consumer.subscribe(pattern=topics[0], listener=listener)
        else:
            self._consumer.subscribe(topics=topics, listener=listener)

    def poll(self, timeout_s: float) -> int:
        """Take what is there."""
        found = self._await(self._consumer.getmany(timeout_ms=int(timeout_s * 1000)))
        return sum(map(len, found.values()))

    def commit(self) -> None:
        """Commit positions; a refusal of the broker is logged, not raised."""
        try:
            self._await(self._consumer.commit())
        except KafkaError as error:
            self._journal.write_event("commit_refused", error=str(error), member=self.member())

    def unsubscribe(self) -> None:
        """Leave the group."""
        self._loop.call_soon_threadsafe(self._consumer.unsubscribe)

    def member(self) -> str:
        """Give the member id; the library offers no public way."""
        return str(getattr(getattr(self._consumer, "_coordinator", None), "member_id", "") or "")

    def obey(self, command: list[str]) -> bool:
        """Know `block SECONDS`: the loop itself stands still, as by a call that should have been awaited."""
        match command:
            case ["block", seconds]:
                self._journal.write_event("blocking", seconds=float(seconds), member=self.member())
                self._loop.call_soon_threadsafe(time.sleep, float(seconds))
            case _:
                return False
        return True

    def close(self) -> None:
        """Leave and close."""
        self._await(self._consumer.stop())


def main() -> None:
    """Run one worker."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    live(AioClient, parse())


if __name__ == "__main__":
    main()
