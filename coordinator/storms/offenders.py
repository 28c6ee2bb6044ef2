"""The offender of a storm: one client with a third of it, or what the clients' names have in common.

Each of an autoscaler's pods takes part in little of a storm. Their client ids differ in what a ReplicaSet or
a StatefulSet appends to the name of the application (`orders-7c9f-x2b4k`, `orders-3`). So the common prefix
is named.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.coordinator.findings.finding import Details

MAJORITY = 0.5
MAIN_SHARE = 1 / 3
"""A client behind less of the rebalances is not called the worst offender."""
NO_OFFENDER = "no member is behind a third of the rebalances"
_LEAST_CHARACTERS, _SEVERAL = 3, 2
_PIECES = re.compile(r"[-._]")


@dataclass(frozen=True, slots=True)
class Offender:
    """The worst offender of a storm. share: of its rebalances, 0..1. host: "" where it has several."""

    client_id: str
    host: str
    share: float


def is_main(share: float) -> bool:
    """Whether a client behind this share of the rebalances is the worst offender."""
    return share >= MAIN_SHARE


def main_offender(details: Details) -> Offender | None:
    """Return the worst offender that a storm's details name, None where no client is behind a third of it."""
    client, share = details.get("worst_client"), details.get("worst_share")
    if not client or not isinstance(share, int | float) or not is_main(share):
        return None
    return Offender(str(client), str(details.get("worst_host", "")).lstrip("/"), share)


def common(clients: Mapping[str, int], of: int) -> Details:
    """Return the longest prefix with the majority of what counts, as `prefix*`; nothing where there is none.

    `clients`: client id -> in how many generations it took part; `of`: how many count.
    """
    shares: Counter[str] = Counter()
    names: Counter[str] = Counter()
    for client, count in clients.items():
        for piece in _PIECES.finditer(client):
            if count > 0 and piece.end() > _LEAST_CHARACTERS:
                shares[client[: piece.end()]] += count
                names[client[: piece.end()]] += 1
    found = [
        (len(prefix), prefix)
        for prefix, count in shares.items()
        if names[prefix] >= _SEVERAL and count > MAJORITY * of
    ]
    if not found:
        return {}
    _, prefix = max(found)
    return {"worst_client": f"{prefix}*", "worst_share": round(shares[prefix] / of, 2)}
