"""Opens kafka-python's admin client, and explains its errors by the party that must act."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.errors import AccessDeniedError, BrokerUnreachableError, DependencyError

if TYPE_CHECKING:
    from collections.abc import Mapping


def opened(arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the library has no types
    """Open the client; one that finds no broker would leave its thread and sockets behind."""
    from kafka.admin import KafkaAdminClient  # noqa: PLC0415 - 0.15 s that `--help` need not wait for
    from kafka.net.compat import KafkaNetClient  # noqa: PLC0415

    # Failed connections and slow turns are not logged: relevant errors are raised, and reported once.
    logging.getLogger("kafka.net").setLevel(logging.CRITICAL)
    made: list[Any] = []

    def kept(**settings: Any) -> Any:  # noqa: ANN401 - the library has no types
        made.append(KafkaNetClient(**settings))
        return made[0]

    try:
        return KafkaAdminClient(kafka_client=kept, **arguments)
    except BaseException:
        for client in made:
            client.close()
            client._manager._net.stop()  # noqa: SLF001 - nothing public ends the thread
        raise


def unanswered(error: Exception, servers: str) -> BrokerUnreachableError:
    """Return the error of a request that failed although every broker can be reached."""
    return BrokerUnreachableError(
        f"A broker of {servers} can be reached, and one has not answered a request: {error}.",
        "It may pass; look which brokers are up, and at their load and logs.",
    )


def sentence(error: Exception, servers: str) -> DependencyError:
    """Return the error with what to do about it, by who must act."""
    from kafka.errors import (  # noqa: PLC0415
        AuthorizationError,
        IncompatibleBrokerVersion,
        RetriableError,
        SaslAuthenticationFailedError,
        UnknownBrokerIdError,
    )

    if isinstance(error, SaslAuthenticationFailedError):
        return AccessDeniedError(
            f"The brokers at {servers} refuse our credentials: {error}.",
            "Correct `sasl.*` under `kafka:` in the configuration, or in the file of `--command-config`.",
        )
    if isinstance(error, AuthorizationError):
        return AccessDeniedError(
            f"The brokers at {servers} do not allow it: {error}.",
            "`rebalance-monitor doctor` names the missing permissions.",
        )
    if isinstance(error, IncompatibleBrokerVersion):
        return DependencyError(
            f"The brokers at {servers} are too old: {error}.", "Kafka 2.6 is the oldest known."
        )
    if isinstance(error, UnknownBrokerIdError):
        return BrokerUnreachableError(
            f"A broker of the cluster at {servers} has just gone away ({error}).",
            "It may pass: start again, and look which brokers are up.",
        )
    if isinstance(error, RetriableError | OSError):
        return _passing(error, servers)
    return DependencyError(f"The brokers at {servers} answer with an error: {error}.", "")


def _passing(error: Exception, servers: str) -> BrokerUnreachableError:
    from kafka.errors import BrokerResponseError  # noqa: PLC0415

    if isinstance(error, BrokerResponseError):
        return BrokerUnreachableError(
            f"A broker at {servers} answers that it cannot do it now: {type(error).__name__}.",
            "It may pass: brokers load their partitions for some time after a start or a move.",
        )
    return BrokerUnreachableError(
        f"No Kafka broker answers at {servers} ({error}).",
        "Check `kafka.bootstrap_servers` or `--bootstrap`, the network, and `security.protocol`.",
    )
