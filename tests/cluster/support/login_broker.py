"""A lab broker with an authorizer, plain for the lab itself (a super user) and one SASL listener besides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from rebalance_monitor.cluster.jars.gateway import java_gateway
from rebalance_monitor.cluster.jars.jars import installed_spark, resolve_spark_kafka
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import free_ports
from tests.cluster.support.identity_provider import AUDIENCE, IdentityProvider

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PROTOCOLS = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"


class LoginBroker(LabBroker):
    """`of_listener`: properties of the SASL listener; `name`: how clients of it call this machine."""

    def __init__(
        self,
        folder: Path,
        mechanism: str,
        of_listener: Mapping[str, str],
        *,
        jvm: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        name: str = "127.0.0.1",
    ) -> None:
        plain, sasl, controller = free_ports(3)
        self.sasl = f"{name}:{sasl}"
        prefix = f"listener.name.sasl_plaintext.{mechanism.lower()}."
        listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}"
        settings = {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://{self.sasl}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listener.security.protocol.map": PROTOCOLS,
            "sasl.enabled.mechanisms": mechanism,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:monitor",
            **{f"{prefix}{key}": value for key, value in of_listener.items()},
            **(settings or {}),
        }
        super().__init__(folder=folder, port=plain, settings=settings, offsets_partitions=4, jvm=jvm)


def oauth_broker(folder: Path, provider: IdentityProvider) -> LoginBroker:
    """A broker with Kafka's own validator of tokens: signature, issuer, audience and age."""
    package = "org.apache.kafka.common.security.oauthbearer"
    handler, module = f"{package}.OAuthBearerValidatorCallbackHandler", f"{package}.OAuthBearerLoginModule"
    of_listener = {
        "sasl.server.callback.handler.class": handler,
        "sasl.jaas.config": f"{module} required;",
        # Connections end with the token that opened them, unless they log in again (KIP-368).
        "connections.max.reauth.ms": "3600000",
    }
    settings = {
        # Kafka 4.1.1 takes tokens of any signature by default; this one asks the issuer for its keys.
        "sasl.oauthbearer.jwt.validator.class": f"{package}.BrokerJwtValidator",
        "sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/jwks",
        "sasl.oauthbearer.expected.issuer": provider.url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.clock.skew.seconds": "1",
    }
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.url}/jwks"
    return LoginBroker(folder, "OAUTHBEARER", of_listener, jvm=[allowed], settings=settings)


def scram_broker(folder: Path) -> LoginBroker:
    """A broker that takes SCRAM, and tokens that those who log in by it have made (KIP-48)."""
    of_listener = {"sasl.jaas.config": f"{SCRAM} required;"}
    return LoginBroker(
        folder, "SCRAM-SHA-512", of_listener, settings={"delegation.token.secret.key": "of the lab"}
    )


def delegation_token(broker: LoginBroker) -> tuple[str, str]:
    """Make the user `monitor` and a delegation token of its own; give the token's id and its HMAC."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion("monitor", info, b"secret")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result()
    login = f'{SCRAM} required username="monitor" password="secret";'
    with java_gateway(resolve_spark_kafka(*installed_spark())) as jvm:
        given = jvm.java.util.HashMap()
        given.put("bootstrap.servers", broker.sasl)
        given.put("security.protocol", "SASL_PLAINTEXT")
        given.put("sasl.mechanism", "SCRAM-SHA-512")
        given.put("sasl.jaas.config", login)
        javas = jvm.org.apache.kafka.clients.admin.Admin.create(given)
        token = javas.createDelegationToken().delegationToken().get()
        made = token.tokenInfo().tokenId(), token.hmacAsBase64String()
        javas.close()
    return made
