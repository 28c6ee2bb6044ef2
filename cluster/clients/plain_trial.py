"""What kafka-python finds out where librdkafka cannot be asked.

The addresses that brokers advertise, before librdkafka connects to them; and why brokers cannot be used under
a login that librdkafka lacks: its own cause, or what answers there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.clients.connection import opened, sentence
from rebalance_monitor.cluster.clients.properties import admin_arguments
from rebalance_monitor.cluster.logins.held import login_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_MS = 10_000


def advertised(properties: Mapping[str, str], timeout_s: float) -> list[tuple[str, int]]:
    """Return the addresses of brokers by the metadata of the servers; none where it cannot be had in time.

    Connects to the servers alone.
    """
    from kafka.errors import KafkaError  # noqa: PLC0415 - slow to import

    timeout_ms = round(timeout_s * 1000)
    try:
        client = _opened(properties, timeout_ms)
    except (KafkaError, OSError):
        return []
    try:
        return [(one.host, one.port) for one in client._manager.cluster.brokers()]  # noqa: SLF001 - what it began with; its calls ask a broker that is named there
    finally:
        client.close()


def brokers_by_python(properties: Mapping[str, str], timeout_ms: int = TIMEOUT_MS) -> list[tuple[str, int]]:
    """Return host and port of the brokers as they name themselves. Raises DependencyError with the cause."""
    from kafka.errors import KafkaError  # noqa: PLC0415 - slow to import

    try:
        client = _opened(properties, timeout_ms)
        try:
            found = client.describe_cluster()["brokers"]
        finally:
            client.close()
    except (KafkaError, OSError) as error:
        raise login_problem(properties) or sentence(error, properties["bootstrap.servers"]) from error
    return [(one["host"], one["port"]) for one in found]


def _opened(properties: Mapping[str, str], timeout_ms: int) -> Any:  # noqa: ANN401 - the library has no types
    limits = {"bootstrap_timeout_ms": timeout_ms, "request_timeout_ms": timeout_ms}
    arguments: dict[str, Any] = {**limits, **admin_arguments(properties)}
    return opened({**arguments, "bootstrap_servers": properties["bootstrap.servers"].split(",")})
