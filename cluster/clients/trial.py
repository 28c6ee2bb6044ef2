"""Why brokers cannot be reached, in one sentence: asked of librdkafka, whose error events know the cause.

kafka-python tries its servers until its time is over, and then reports for every reason that none answered.
So the first connection of a process tries librdkafka before (`require_answer`). If kafka-python fails later,
librdkafka is asked why (`cause_of`). Some causes are not in its events, and it believes whatever answers. A
plain connection of our own finds these causes, and what is no Kafka broker (servers.py), also at the
addresses that the cluster names for its brokers.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.clients.plain_trial import advertised, brokers_by_python
from rebalance_monitor.cluster.clients.properties import portable, reader_settings
from rebalance_monitor.cluster.clients.servers import (
    NETWORK,
    Cause,
    address_of,
    answers_of,
    fault_of_server,
    no_kafka,
    no_name,
    no_port,
    no_tls,
    require_brokers,
)
from rebalance_monitor.cluster.clients.tls_files import CERTIFICATE, require_usable
from rebalance_monitor.cluster.errors import BrokerUnreachableError, DependencyError
from rebalance_monitor.cluster.logins.held import has_librdkafka, require_login
from rebalance_monitor.cluster.logins.tokens import shared_token
from rebalance_monitor.config.errors import ConfigError
from rebalance_monitor.config.kafka.logins import LoginKind, login_kind
from rebalance_monitor.config.secrets import is_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from confluent_kafka import KafkaError

TIMEOUT_S = 10.0
# So long a broker that just starts, or a name that is just made known, is waited for.
PATIENCE_S = 3.0
STEPS_S = (0.3, 0.5, 1.0)
ADVERTISED = 20
"""How many of the brokers that a cluster names are tried when something is wrong."""
OF_TOKENS = "See the broker's log: the token's signature, issuer, audience or age may be wrong, or a clock."
LOGIN = (
    "Correct `sasl.jaas.config` under `kafka:` in the configuration, or in the file of `--command-config`."
)
_SILENT = logging.getLogger("rebalance_monitor.librdkafka")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False
_answered: set[int] = set()
_known: set[tuple[int, str]] = set()


def require_answer(properties: Mapping[str, str]) -> None:
    """Raise unless the servers answered these properties before, or do now.

    Raises ConfigError for properties and files that no client can use, BrokerUnreachableError, and
    AccessDeniedError for a login that is refused.
    """
    key = hash(frozenset(properties.items()))
    if key not in _answered:
        brokers_of(properties)
        _answered.add(key)


def misnamed(
    properties: Mapping[str, str], brokers: Iterable[tuple[str, int]]
) -> list[BrokerUnreachableError]:
    """Return an error for each of these addresses, which a cluster advertises, where something else answers.

    An address where a broker has answered is not asked again.
    """
    plain = portable(properties)
    key = hash(frozenset(plain.items() - {("bootstrap.servers", plain["bootstrap.servers"])}))
    known = {server for of, server in _known if of == key}
    named = {_address(host, port) for host, port in brokers}
    found = answers_of(sorted(named - known - set(_servers(plain))), plain)
    _known.update((key, server) for server, answer in found.items() if answer is True)
    return [_misnamed(properties, server, x.what) for server, x in found.items() if isinstance(x, Cause)]


def require_named(properties: Mapping[str, str]) -> None:
    """Raise BrokerUnreachableError where something else than a broker answers at an advertised address.

    librdkafka connects at once to what metadata names. kafka-python asks the servers alone for it.
    """
    for error in misnamed(properties, advertised(properties, PATIENCE_S)):
        raise error


def require_accepted(properties: Mapping[str, str]) -> None:
    """Raise ConfigError where librdkafka refuses a value; opens no connection."""
    if has_librdkafka(properties):
        settings = reader_settings(properties)
        # A client that knows a server connects to it at once, whatever answers there.
        settings.pop("bootstrap.servers", None)
        _Trial(properties).client(settings)


def cause_of(properties: Mapping[str, str]) -> DependencyError | None:
    """Return why these brokers cannot be used, None where all of them answer. Raises ConfigError."""
    try:
        for host, port in brokers_of(properties)[:ADVERTISED]:
            require_advertised(properties, host, port)
    except DependencyError as error:
        return error
    return None


def brokers_of(properties: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return host and port of the brokers as they name themselves. Raises as `require_answer`."""
    plain = portable(properties)
    require_usable(plain, properties)
    answered = require_brokers(_servers(plain), plain)
    # Of a token or ticket that cannot be had no client says anything that names a server.
    require_login(properties)
    if answered:
        require_named(properties)
    if not has_librdkafka(properties):
        return brokers_by_python(properties)
    return _Trial(properties).brokers()


def require_advertised(properties: Mapping[str, str], host: str, port: int) -> None:
    """Raise BrokerUnreachableError unless a broker answers at the address that the cluster names for it."""
    address = _address(host, port)
    if address in properties.get("bootstrap.servers", "").split(","):
        return
    try:
        brokers_of({**properties, "bootstrap.servers": address})
    except DependencyError as error:
        raise _misnamed(properties, address, error.what) from None


def _misnamed(properties: Mapping[str, str], address: str, what: str) -> BrokerUnreachableError:
    servers = properties.get("bootstrap.servers", "")
    return BrokerUnreachableError(
        f"The brokers at {servers} answer and name {address} as one of them. {what}",
        "Correct `advertised.listeners` of that broker, or make its name and port known to this machine.",
    )


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(slots=True)
class _Trial:
    """One client of librdkafka, and what its error events say of each server.

    `named` are the failed servers that metadata gave an id: a cluster advertises them.
    """

    properties: Mapping[str, str]
    causes: dict[str, Cause] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    down: bool = False

    def brokers(self) -> list[tuple[str, int]]:
        """Return the brokers of the metadata. Raises ConfigError, DependencyError.

        librdkafka leaves the bootstrap servers once it has metadata. Where a step ends just then and no
        advertised broker answers, no later step sees the metadata: then the advertised brokers that failed
        are returned. Only the metadata can have named them, so the bootstrap servers did answer.
        """
        from confluent_kafka import KafkaException  # noqa: PLC0415 - loads a C library

        plain = portable(self.properties)
        bootstrap = _servers(plain)
        client, started = self.client(reader_settings(self.properties)), time.monotonic()
        for step in _steps():
            try:
                found = client.list_topics(timeout=step)
            except KafkaException:
                client.poll(0)
            else:
                return [(broker.host, broker.port) for broker in found.brokers.values()]
            spent = time.monotonic() - started
            if self.down and not self.causes:
                self._try_servers(plain)
            advertised = self.named - set(bootstrap)
            if spent > TIMEOUT_S and advertised:
                return [address_of(server) for server in sorted(advertised)]
            failed = self.causes and self.down and not advertised
            if spent > TIMEOUT_S or (failed and (spent > PATIENCE_S or self._lasts())):
                break
        raise self._cause(plain).error()

    def client(self, settings: Mapping[str, str]) -> Any:  # noqa: ANN401 - the library has no types
        """Return a client whose error events are heeded. Raises ConfigError."""
        from confluent_kafka import KafkaException  # noqa: PLC0415
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415

        try:
            return AdminClient({**settings, "error_cb": self._heed, "log_level": 0}, logger=_SILENT)
        except KafkaException as error:
            raise ConfigError(f"the Kafka client refuses `kafka:`: {_words(error, settings)}") from None

    def _heed(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError as Codes  # noqa: PLC0415

        if error.code() == Codes._ALL_BROKERS_DOWN:  # noqa: SLF001 - the library's public name for it
            self.down = True
            return
        match = SERVER.match(error.str())
        if match and (cause := _cause_of_words(match["server"], error.str(), self.properties)):
            self.causes.setdefault(match["server"], cause)
            if match["id"] != BOOTSTRAP:
                self.named.add(match["server"])

    def _try_servers(self, plain: Mapping[str, str]) -> None:
        """Connect to servers that are down for a reason which librdkafka does not report."""
        for server in _servers(plain):
            if cause := fault_of_server(server, plain):
                self.causes[server] = cause
                return

    def _lasts(self) -> bool:
        return not all(cause.passes for cause in self.causes.values())

    def _cause(self, plain: Mapping[str, str]) -> Cause:
        """Return the one cause to report: a refused login, then a lasting cause, then one that may pass."""
        if not self.causes:
            self._try_servers(plain)
        known = sorted(self.causes.values(), key=lambda cause: (not cause.denied, cause.passes))
        return known[0] if known else _mute(", ".join(_servers(plain)))


def _servers(plain: Mapping[str, str]) -> list[str]:
    return plain["bootstrap.servers"].split(",")


Judge = Callable[[str, re.Match[str], Mapping[str, str]], Cause]
BOOTSTRAP = "bootstrap"
SERVER = re.compile(rf"(?:\w+://)?(?P<server>[^/]+)/(?P<id>{BOOTSTRAP}|\d+): ")


def _steps() -> Iterator[float]:
    yield from STEPS_S
    while True:
        yield STEPS_S[-1]


def _words(error: Any, settings: Mapping[str, str]) -> str:  # noqa: ANN401 - the library has no types
    words = str(error.args[0].str())
    secrets = (value for name, value in settings.items() if is_secret(name))
    return error.args[0].name() if any(value and value in words for value in secrets) else words


def _cause_of_words(server: str, words: str, properties: Mapping[str, str]) -> Cause | None:
    """Return what librdkafka's words mean; None for what they leave open."""
    for pattern, judge in MEANINGS:
        if match := re.search(pattern, words):
            return judge(server, match, properties)
    return None


def _no_mechanism(server: str, match: re.Match[str], _: Mapping[str, str]) -> Cause:
    offered = match["offered"].strip()
    if not offered:
        return Cause(
            f"The broker at {server} takes no login.",
            "Set `security.protocol` to PLAINTEXT or SSL, or name the port that takes logins.",
        )
    what = f"The broker at {server} does not offer the mechanism {match['mechanism']}, only {offered}."
    return Cause(what, "Correct `sasl.mechanism`.")


def _refused_login(server: str, _: re.Match[str], properties: Mapping[str, str]) -> Cause:
    if login_kind(properties) is LoginKind.OIDC:
        shared_token(properties).forget()
        return Cause(f"The broker at {server} refuses our access token.", OF_TOKENS, denied=True)
    return Cause(f"The broker at {server} refuses our user or password.", LOGIN, denied=True)


def _refused_certificate(server: str, _: re.Match[str], properties: Mapping[str, str]) -> Cause:
    if CERTIFICATE in properties or "ssl.keystore.location" in properties:
        remedy = "Set `ssl.keystore.location` to a certificate that an authority of the brokers signed."
        return Cause(f"The broker at {server} refuses our certificate.", remedy, denied=True)
    remedy = "Set `ssl.keystore.location` (PEM), or name the port that takes logins by password."
    return Cause(
        f"The broker at {server} requires a client certificate, and none is set.", remedy, denied=True
    )


def _mute(servers: str) -> Cause:
    return Cause(f"No Kafka broker answers at {servers}.", NETWORK, passes=True)


# In librdkafka's words (rdkafka_broker.c, _sasl.c, _ssl.c, _transport.c); the first match wins.
MEANINGS: tuple[tuple[str, Judge], ...] = (
    (
        r"SASL (?P<mechanism>\S+) mechanism handshake failed: .*supported mechanisms: ?(?P<offered>[^(]*)",
        _no_mechanism,
    ),
    (r"SASL authentication error|Authentication failed", _refused_login),
    (
        r"alert (bad certificate|certificate required|certificate unknown|unknown ca|handshake failure)",
        _refused_certificate,
    ),
    (r"PLAINTEXT broker listener|wrong version number", lambda server, *_: no_tls(server)),
    (
        r"Failed to resolve '[^']*': (?P<why>[^(]*[^( ])",
        lambda server, match, _: no_name(server, match["why"]),
    ),
    (r"Connection refused", lambda server, *_: no_port(server)),
    (r"Invalid response size|CorrelationId|Protocol parse", lambda server, *_: no_kafka(server)),
)
