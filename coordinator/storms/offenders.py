"""The offender where no single client has a third of a storm: what the names behind it have in common.

An autoscaler's pods each take part in little of it. Their client ids differ in what a ReplicaSet or a
StatefulSet adds to the name of the application (`orders-7c9f-x2b4k`, `orders-3`), so the part before is what
is named.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.coordinator.findings.finding import Details

MAJORITY = 0.5
_LEAST_CHARACTERS, _SEVERAL = 3, 2
_PIECES = re.compile(r"[-._]")


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
