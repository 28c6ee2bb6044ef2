"""Fetches the jars of Spark's Kafka connector and of the lab's broker ahead of what needs them.

Only to show progress where tests would hide it: whatever uses the jars resolves them itself. With a filled
cache this needs no network and hardly any time. Exit code 3 and one message where a jar cannot be fetched.
"""

import sys

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.jars.jars import installed_spark, resolve_kafka_broker, resolve_spark_kafka

# The lab's default (lab/cluster/broker.py), without importing its Kafka clients.
KAFKA = "4.1.1"


def main() -> int:
    """Fetch what is missing and return the exit code."""
    try:
        resolve_spark_kafka(*installed_spark(), say=say)
        resolve_kafka_broker(KAFKA, say=say)
    except DependencyError as error:
        say(str(error))
        return 3
    return 0


def say(text: str) -> None:
    """Show what happens, apart from data."""
    sys.stderr.write(f"· {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
