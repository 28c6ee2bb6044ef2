"""What answers at a server, found out by a plain connection of our own.

Kafka's clients believe what answers. librdkafka aborts its process where an ApiVersions response has no list
(a frame of zeros). Java's client and kafka-python take the first four bytes for a length and allocate as
much: "HTTP" are 1.2 GB, and Spark's JVM has no heap left. So before a client is given a server, that is
asked for its API versions in some bytes, and a bounded answer is read (`answer_of`). What librdkafka's events
leave open (a host name beside the certificate, TLS where none is spoken, a login that is wanted) is found out
here as well (`fault_of_server`).
"""

from __future__ import annotations

import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

from rebalance_monitor.cluster.clients.tls_files import CA, CERTIFICATE, KEY, KEY_PASSWORD
from rebalance_monitor.cluster.errors import AccessDeniedError, BrokerUnreachableError, DependencyError
from rebalance_monitor.config.kafka.logins import PROTOCOL
from rebalance_monitor.config.kafka.values import HOST_CHECK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SNIFF_S = 3.0
NETWORK = "Check `kafka.bootstrap_servers` or `--bootstrap`, the network, and that the brokers run."
TRUST = "Set `ssl.truststore.location` (PEM) to the authority that signed the brokers' certificates."
PORT = "Correct the port in `kafka.bootstrap_servers`, or `security.protocol`."
ASKED_AT_ONCE = 16

CORRELATION = 0x52424D4F
# ApiVersions v3 (KIP-511), as librdkafka asks; a broker answers it before a login too, if with an error:
# length, key, version, correlation, client id; name and version of the software.
_HEAD, _CLIENT = Struct(">ihhih"), b"rebalance-monitor"
_SOFTWARE = bytes((0, len(_CLIENT) + 1)) + _CLIENT + b"\x021\0"
_LENGTH = _HEAD.size - 4 + len(_CLIENT) + len(_SOFTWARE)
REQUEST = _HEAD.pack(_LENGTH, 18, 3, CORRELATION, len(_CLIENT)) + _CLIENT + _SOFTWARE
# Of the response: length and correlation; error; then one more than there are APIs, of seven bytes each.
_FRAME, _ERROR, _API_BYTES = Struct(">ii"), Struct(">h"), 7
LARGEST = 65_536
# First bytes of a TLS record: alert or handshake, of some version.
TLS = (b"\x15\x03", b"\x16\x03")
SHOWN = 60


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a server cannot be used. `passes`: it may work in a moment; `denied`: it refuses our login."""

    what: str
    remedy: str = NETWORK
    passes: bool = False
    denied: bool = False

    def error(self) -> DependencyError:
        """Return the error to raise."""
        return (AccessDeniedError if self.denied else BrokerUnreachableError)(self.what, self.remedy)


def address_of(server: str) -> tuple[str, int]:
    """Return host and port of `host:port`."""
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)


def require_brokers(servers: Sequence[str], plain: Mapping[str, str]) -> bool:
    """Return whether a Kafka broker answers at one of the servers.

    Raises BrokerUnreachableError where something else does. A server that is silent, or cannot be reached,
    passes: the clients find out why, and may find another.
    """
    found = answers_of(servers, plain).values()
    for cause in found:
        if isinstance(cause, Cause):
            raise cause.error()
    return True in found


def answers_of(servers: Sequence[str], plain: Mapping[str, str]) -> dict[str, Cause | bool]:
    """Ask each server for its API versions; return server -> `answer_of`."""
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        found = pool.map(lambda server: answer_of(server, plain), servers)
        return dict(zip(servers, found, strict=True))


def answer_of(server: str, plain: Mapping[str, str]) -> Cause | bool:
    """Return whether a Kafka broker answers; what is wrong where something else does."""
    host, port = address_of(server)
    until = time.monotonic() + SNIFF_S
    try:
        with socket.create_connection((host, port), SNIFF_S) as link:
            if not _speaks_tls(plain):
                return _asked(server, link, until, plain)
            with _context(plain).wrap_socket(link, server_hostname=host) as secured:
                return _asked(server, secured, until, plain)
    except (OSError, UnicodeError):
        return False


def _asked(server: str, link: socket.socket, until: float, plain: Mapping[str, str]) -> Cause | bool:
    link.sendall(REQUEST)
    head = _read(link, _FRAME.size, until)
    if not head:
        return False
    if head.startswith(TLS) and not _speaks_tls(plain):
        return _needs_tls(server, plain)
    size, correlation = _FRAME.unpack(head) if len(head) == _FRAME.size else (0, 0)
    if correlation != CORRELATION or not _ERROR.size + 4 < size <= LARGEST:
        return no_kafka(server, head + _read(link, SHOWN, min(until, time.monotonic() + 0.2)))
    body = _read(link, size - 4, until)
    if len(body) < size - 4:
        return Cause(f"{server} begins an answer and does not end it within {SNIFF_S:.0f} s.", passes=True)
    (error,) = _ERROR.unpack_from(body)
    return bool(error) or 1 <= _apis(body) <= len(body) // _API_BYTES or no_kafka(server)


def _apis(body: bytes) -> int:
    """Return how many APIs a response says that it has; -1 for no list at all."""
    low, high = (body[_ERROR.size :] + b"\0")[:2]
    return (low if low < 128 else low - 128 + 128 * high) - 1  # noqa: PLR2004 - seven bits a byte


def _read(link: socket.socket, size: int, until: float) -> bytes:
    """Return so many bytes, or as many as come until then or before the connection ends."""
    found = b""
    try:
        while len(found) < size and (left := until - time.monotonic()) > 0:
            link.settimeout(left)
            if not (more := link.recv(size - len(found))):
                break
            found += more
    except OSError:
        pass
    return found


def no_kafka(server: str, answer: bytes = b"") -> Cause:
    """Return the cause of a server that is no broker; the first line of its answer where that is text."""
    line = answer.partition(b"\n")[0].rstrip(b"\r")[:SHOWN].decode("ascii", errors="replace")
    says = f": it says {line!r}" if len(line) > 1 and line.isascii() and line.isprintable() else ""
    return Cause(f"What answers at {server} is no Kafka broker{says}.", PORT)


def no_tls(server: str) -> Cause:
    """Return the cause of a broker without TLS."""
    remedy = "Set `security.protocol` to PLAINTEXT or SASL_PLAINTEXT, or name the port that speaks TLS."
    return Cause(f"The broker at {server} does not speak TLS.", remedy)


def no_name(server: str, why: str) -> Cause:
    """Return the cause of a name that does not resolve."""
    what = f"The name of {server} cannot be resolved: {why.rstrip('.')}."
    return Cause(what, "Correct `kafka.bootstrap_servers`, or this machine's name service.", passes=True)


def no_port(server: str) -> Cause:
    """Return the cause of a connection that is refused."""
    return Cause(f"Nothing listens at {server}: the connection is refused.", passes=True)


def fault_of_server(server: str, plain: Mapping[str, str]) -> Cause | None:
    """Connect to a server by ourselves; return what is wrong with name, port, TLS or the missing login."""
    host, port = address_of(server.strip())
    try:
        with socket.create_connection((host, port), SNIFF_S) as plain_socket:
            return _greeted(server, host, plain_socket, plain)
    except socket.gaierror as error:
        return no_name(server, error.strerror or "unknown")
    except UnicodeError:
        return no_name(server, "a part of it has no letter, or more than 63")
    except ConnectionRefusedError:
        return no_port(server)
    except TimeoutError:
        return Cause(f"{server} does not answer within {SNIFF_S:.0f} s.", NETWORK, passes=True)
    except OSError as error:
        return Cause(f"{server} cannot be reached: {error.strerror or type(error).__name__}.", passes=True)


def _greeted(server: str, host: str, link: socket.socket, plain: Mapping[str, str]) -> Cause | None:
    """Return the result of a handshake with a server that accepts the connection."""
    if not _speaks_tls(plain):
        return _in_plain_text(server, host, link, plain)
    try:
        with _context(plain).wrap_socket(link, server_hostname=host):
            return _wants_login(server, plain)
    except ssl.SSLCertVerificationError as error:
        return _untrusted(server, error.verify_message)
    except TimeoutError:
        return Cause(
            f"{server} takes the connection and does not answer within {SNIFF_S:.0f} s.", passes=True
        )
    except OSError:
        return no_tls(server)


def _in_plain_text(server: str, host: str, link: socket.socket, plain: Mapping[str, str]) -> Cause | None:
    blind = ssl.create_default_context()
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    try:
        with blind.wrap_socket(link, server_hostname=host):
            return _needs_tls(server, plain)
    except OSError:
        return _wants_login(server, plain)


def _needs_tls(server: str, plain: Mapping[str, str]) -> Cause:
    protocol = plain.get(PROTOCOL, "PLAINTEXT")
    remedy = f"Set it to {'SASL_SSL' if protocol.startswith('SASL_') else 'SSL or SASL_SSL'}."
    return Cause(f"The broker at {server} speaks TLS, and `security.protocol` is {protocol}.", remedy)


def _wants_login(server: str, plain: Mapping[str, str]) -> Cause | None:
    if plain.get(PROTOCOL, "PLAINTEXT").startswith("SASL_"):
        return None
    what = f"{server} takes the connection and does not answer as a Kafka broker without a login does."
    return Cause(
        what, "Set `security.protocol` to SASL_SSL or SASL_PLAINTEXT with a login, or correct the port."
    )


def _speaks_tls(plain: Mapping[str, str]) -> bool:
    return "SSL" in plain.get(PROTOCOL, "PLAINTEXT").split("_")


def _context(plain: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=plain.get(CA))
    # "none": as librdkafka is given it.
    context.check_hostname = plain.get(HOST_CHECK, "https") not in {"", "none"}
    if CERTIFICATE in plain and KEY in plain:
        context.load_cert_chain(plain[CERTIFICATE], plain[KEY], lambda: plain.get(KEY_PASSWORD, ""))
    return context


def _untrusted(server: str, why: str) -> Cause:
    if "mismatch" in why:
        remedy = (
            "Name the broker in `kafka.bootstrap_servers` as its certificate does; an empty "
            f"`{HOST_CHECK}` leaves the check out."
        )
        return Cause(f"The certificate of {server} is for another name.", remedy)
    if "expired" in why or "not yet valid" in why:
        remedy = "Renew the broker's certificate, or correct this machine's clock."
        return Cause(f"The certificate of {server} is not valid now: {why}.", remedy)
    return Cause(f"The certificate of {server} is signed by no authority that is trusted here: {why}.", TRUST)
