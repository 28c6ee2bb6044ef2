"""What the live probe saw in one look, and its JSON-line form (`sightings.jsonl` of a capture).

Pure data; the probe itself lives in `cluster/`. A state is the broker's own word (`PreparingRebalance`, ...).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SeenGroup:
    """A group that one look reported as rebalancing."""

    group: str
    state: str
    group_type: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """One look at `at` (ms since epoch); leaders: (partition, broker, epoch), brokers: (broker, answered)."""

    at: int
    groups: tuple[SeenGroup, ...]
    leaders: tuple[tuple[int, int, int], ...]
    brokers: tuple[tuple[int, bool], ...]


def to_json(sighting: Sighting) -> str:
    """One JSON line without a line break."""
    body = {
        "at": sighting.at,
        "groups": [[g.group, g.state, g.group_type, g.protocol_type] for g in sighting.groups],
        "leaders": [list(leader) for leader in sighting.leaders],
        "brokers": [list(broker) for broker in sighting.brokers],
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def from_json(text: str) -> Sighting:
    """Inverse of `to_json`; raises ValueError, KeyError or TypeError on what is no sighting."""
    body: dict[str, Any] = json.loads(text)
    return Sighting(
        at=int(body["at"]),
        groups=tuple(SeenGroup(*seen) for seen in body["groups"]),
        leaders=tuple((int(p), int(broker), int(epoch)) for p, broker, epoch in body["leaders"]),
        brokers=tuple((int(broker), bool(answered)) for broker, answered in body["brokers"]),
    )
