"""Reads `bootstrap_servers`: `host:port`, several separated by commas, IPv6 addresses in brackets.

Kafka's Java client takes a scheme before a host and passes over it, librdkafka wants it to be the security
protocol, kafka-python takes it for a part of the host. What all three read alike is kept, the rest refused.
"""

import re

from rebalance_monitor.config.hosts import is_ipv6, is_name

MAX_PORT = 65_535
BRACKETS = re.compile(r"\[(.*)\]")


def servers_of(text: str) -> str:
    """Return the servers as every client reads them. Raises ValueError: what is wrong, without the name."""
    servers = [server for part in text.split(",") if (server := part.strip())]
    if not servers:
        raise ValueError("is empty: write `host:port`, several separated by commas")
    return ",".join(_server(server) for server in servers)


def _server(text: str) -> str:
    host, colon, port = text.rpartition(":")
    wrong = _wrong(text) or (not colon and _without_colon(text)) or _wrong_host(host)
    if not wrong and not (port.isascii() and port.isdigit() and 1 <= int(port) <= MAX_PORT):
        wrong = f"has no port from 1 to {MAX_PORT}"
    if wrong:
        # What stands before an `@` may be a password.
        raise ValueError(f"has the entry {text.rpartition('@')[2]!r}, which {wrong}")
    return f"{host}:{int(port)}"


def _without_colon(text: str) -> str:
    return "is a port alone: write host:port" if text.isdigit() else f"has no port: write {text}:9092"


def _wrong(text: str) -> str:
    if "://" in text:
        return "begins with a scheme: leave it out, and set `security.protocol`"
    if ";" in text or re.search(r"\s", text):
        return "is not `host:port`: separate several by commas"
    return "is not `host:port`" if re.search(r"[@/\\'\"]", text) else ""


def _wrong_host(host: str) -> str:
    if ":" in host or "[" in host:
        found = BRACKETS.fullmatch(host)
        fits = found is not None and is_ipv6(found[1])
        return "" if fits else "is not `host:port`: write an IPv6 address as [::1]:9092"
    return "" if is_name(host) else "is not `host:port`"
