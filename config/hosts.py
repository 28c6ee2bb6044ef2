"""Names and addresses of hosts, as far as a wrong one shows without asking DNS (RFC 1123, RFC 4291)."""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Annotated

from pydantic import AfterValidator, Field

# Underscores are no part of a host's name, and Docker's names have them.
LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
LONGEST_NAME = 253


def is_host(text: str) -> bool:
    """Whether a text is a host's name or address; IPv6 without brackets."""
    return is_ipv6(text) or is_name(text)


def is_name(text: str) -> bool:
    """Whether a text is a host's name, or an address of IPv4."""
    labels = text.removesuffix(".").split(".")
    if len(text) > LONGEST_NAME or not all(map(LABEL.fullmatch, labels)):
        return False
    # Clients read `1.2.3` or `256.0.0.1` each in its own way.
    return not (labels[-1].isascii() and labels[-1].isdigit()) or _is(IPv4Address, text)


def is_ipv6(text: str) -> bool:
    """Whether a text is an address of IPv6, without brackets."""
    return _is(IPv6Address, text)


def to_ascii(name: str) -> str:
    """Return an international name as DNS has it; a text that is none stays as it is."""
    try:
        return name if name.isascii() else name.encode("idna").decode()
    except UnicodeError:
        return name


def _is(kind: type[IPv4Address | IPv6Address], text: str) -> bool:
    try:
        kind(text)
    except AddressValueError:
        return False
    return True


def _one_host(text: str) -> str:
    if not is_host(text):
        raise ValueError("must be a host's name or address, without scheme, port and brackets")
    return text


Host = Annotated[str, Field(min_length=1), AfterValidator(_one_host)]
"""A host's name or address in the configuration."""
