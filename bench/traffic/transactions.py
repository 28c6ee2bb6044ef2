"""Commits offsets in transactions at a real broker: what no producer can write by itself are their markers.

A few groups in turn, `WIDTH` partitions a transaction; one transaction in ten is aborted, which the
coordinator writes just as well. The groups have no members, as those of a job that assigns by itself.

    python -m bench.traffic.transactions --bootstrap 127.0.0.1:9092 --records 10000
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "bench-transactional"
CLIENTS, WIDTH = 8, 10
ABORTED = 10  # one in so many
WAIT_S = 60


def transact(bootstrap: str, records: int) -> int:
    """Commit about so many offsets in transactions; returns the number of transactions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if TOPIC not in admin.list_topics(timeout=WAIT_S).topics:
        admin.create_topics([NewTopic(TOPIC, WIDTH, 1)])[TOPIC].result(WAIT_S)
    each = -(-records // (WIDTH * CLIENTS))
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda number: _client(bootstrap, number, each), range(CLIENTS)))
    return each * CLIENTS


def _client(bootstrap: str, number: int, transactions: int) -> None:
    name = f"transactional-{number}"
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name})
    metadata = consumer.consumer_group_metadata()
    producer.init_transactions(WAIT_S)
    for turn in range(transactions):
        producer.begin_transaction()
        offsets = [TopicPartition(TOPIC, partition, turn) for partition in range(WIDTH)]
        producer.send_offsets_to_transaction(offsets, metadata, WAIT_S)
        if turn % ABORTED == ABORTED - 1:
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)
    consumer.close()


def main() -> None:
    """Commit from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--records", type=int, default=10_000)
    options = parser.parse_args()
    print(f"{transact(options.bootstrap, options.records):,} transactions")


if __name__ == "__main__":
    main()
