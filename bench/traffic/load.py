"""Fills a broker's `__consumer_offsets` with the mix: what a cluster's coordinators would have written.

The broker lets only clients named `__admin_client` produce into an internal topic.

    python -m bench.traffic.load --bootstrap 127.0.0.1:9092 --records 2000000
"""

from __future__ import annotations

import argparse
import time
from itertools import chain, islice
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from bench.traffic.mix import Mix, messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench.traffic.mix import Message

TOPIC = "__consumer_offsets"
CHUNK = 5_000


def producer(bootstrap: str, at_once: int = 10_000, linger_ms: int = 20) -> Producer:
    """Give a producer that may write to internal topics and keeps each partition's order.

    A record batch holds up to `at_once` records; what a coordinator appends is the records of one request.
    """
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "__admin_client",
            "enable.idempotence": True,
            "linger.ms": linger_ms,
            "batch.size": 500_000,
            "batch.num.messages": at_once,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 200_000,
            # A report of each record in Python would take as long as the record.
            "delivery.report.only.error": True,
        }
    )


def records_of(mix: Mix) -> Iterator[Message]:
    """Give the records of `mix` one by one: to be loaded at once, or in portions that follow each other."""
    return chain.from_iterable(messages(mix))


def load(
    bootstrap: str, records: Iterable[Message], client: Producer | None = None, *, flush: bool = True
) -> int:
    """Write `records` and give the number that the broker has. RuntimeError: some were refused.

    Without `flush` they are on their way when this returns, and those refused are not noticed.
    """
    client = client or producer(bootstrap)
    records, sent, refused = iter(records), 0, []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            refused.append(error)

    while chunk := list(islice(records, CHUNK)):
        _send(client, _as_dicts(chunk), delivered)
        sent += len(chunk)
    if flush:
        client.flush(120)
    if refused:
        raise RuntimeError(f"{len(refused)} of {sent} records were refused: {refused[0]}")
    return sent


def _as_dicts(chunk: list[Message]) -> Iterator[dict[str, object]]:
    for message in chunk:
        yield {
            "partition": message.partition,
            "timestamp": message.timestamp,
            "key": message.key,
            "value": message.value,
        }


def _send(client: Producer, rows: Iterator[dict[str, object]], delivered: object) -> None:
    for row in rows:
        produce(client, topic=TOPIC, on_delivery=delivered, **row)
    client.poll(0)


def produce(client: Producer, **record: object) -> None:
    """Produce a record as soon as the client has room for it."""
    while True:
        try:
            client.produce(**record)
            break
        except BufferError:
            client.poll(0.1)


def main() -> None:
    """Load a broker from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=10, help="partitions per group")
    parser.add_argument("--records", type=int, default=2_000_000)
    options = parser.parse_args()
    began = time.monotonic()
    now = time.time_ns() // 1_000_000
    sent = load(options.bootstrap, records_of(Mix(options.groups, options.width, options.records, now)))
    print(f"{sent:,} records in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
