"""Why brokers cannot be used under a login that librdkafka lacks: its own cause, or what answers there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.clients.connection import opened, sentence
from rebalance_monitor.cluster.clients.properties import admin_arguments
from rebalance_monitor.cluster.logins.held import login_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_MS = 10_000


def brokers_by_python(properties: Mapping[str, str], timeout_ms: int = TIMEOUT_MS) -> list[tuple[str, int]]:
    """Return host and port of the brokers as they name themselves. Raises DependencyError with the cause."""
    from kafka.errors import KafkaError  # noqa: PLC0415 - slow to import

    servers = properties.get("bootstrap.servers", "")
    arguments: dict[str, Any] = {"request_timeout_ms": timeout_ms, **admin_arguments(properties)}
    arguments["bootstrap_servers"] = servers.split(",")
    try:
        client = opened({"bootstrap_timeout_ms": timeout_ms, **arguments})
        try:
            found = client.describe_cluster()["brokers"]
        finally:
            client.close()
    except (KafkaError, OSError) as error:
        raise login_problem(properties) or sentence(error, servers) from error
    return [(one["host"], one["port"]) for one in found]
