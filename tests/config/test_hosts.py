"""Names of hosts: what is refused could never be reached, and what is taken is what the resolver takes."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_monitor.config.hosts import is_host, to_ascii

LABEL = st.from_regex(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", fullmatch=True)


TAKEN = ("localhost", "a-b.example.", "kafka_1", "10.0.0.1", "::1", "fe80::1%eth0", "::ffff:1.2.3.4", "1a")
LONG = ("a" * 64, "a." * 127 + "a")
NO_NAMES = ("", " ", "a b", "a..b", ".a", "-a", "http://a", "a:80", "a/b", "b\u00fccher.example")
NO_ADDRESSES = ("[::1]", ":::::", "::g", "1.2.3", "256.0.0.1", "2130706433", "\u0663.1.1.1")
UNSEEN = ("a\u200b", "a\0", "a\n")


@pytest.mark.parametrize("host", TAKEN)
def test_a_host_is_taken(host: str) -> None:
    assert is_host(host)


@pytest.mark.parametrize("host", [*LONG, *NO_NAMES, *NO_ADDRESSES, *UNSEEN])
def test_what_is_no_host_is_refused(host: str) -> None:
    assert not is_host(host)


@given(st.lists(LABEL, min_size=1, max_size=3).map(".".join))
def test_a_host_that_is_taken_never_fails_in_the_library_that_asks_dns(host: str) -> None:
    """Python's resolver raises UnicodeError, and no OSError, for a label that is empty or too long."""
    if is_host(host):
        host.encode("idna")


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_an_address_is_taken_as_the_system_takes_it(address: str) -> None:
    assert is_host(address)
    assert socket.getaddrinfo(address, 80, flags=socket.AI_NUMERICHOST)


def test_an_international_name_is_what_dns_has() -> None:
    assert to_ascii("b\u00fccher.example") == "xn--bcher-kva.example"
    assert not is_host(to_ascii("a" * 64 + "\u00fc"))
