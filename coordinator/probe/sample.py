"""What the live probe saw in one look, and its JSON-line form (`sightings.jsonl` of a capture).

Pure data; the probe itself lives in `cluster/`. A state is the broker's own word (`PreparingRebalance`, ...).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
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
    """One look at `at` (ms since epoch); leaders: (partition, broker, epoch), brokers: (broker, answered).

    `members`: group -> (member id, instance id or "", client id, host) of the classic groups seen. `listed`:
    every group that the brokers list, where this look asked for all of them, else None. `failures`: broker ->
    why it gave nothing, one sentence. `took`: ms until the last broker had answered.
    """

    at: int
    groups: tuple[SeenGroup, ...]
    leaders: tuple[tuple[int, int, int], ...]
    brokers: tuple[tuple[int, bool], ...]
    members: dict[str, tuple[tuple[str, str, str, str], ...]] = field(default_factory=dict)
    listed: frozenset[str] | None = None
    failures: dict[int, str] = field(default_factory=dict)
    took: int = 0


def to_json(sighting: Sighting) -> str:
    """One JSON line without a line break."""
    body: dict[str, Any] = {
        "at": sighting.at,
        "groups": [[g.group, g.state, g.group_type, g.protocol_type] for g in sighting.groups],
        "leaders": [list(leader) for leader in sighting.leaders],
        "brokers": [list(broker) for broker in sighting.brokers],
    }
    if sighting.members:
        body["members"] = sighting.members
    if sighting.listed is not None:
        body["listed"] = sorted(sighting.listed)
    if sighting.failures:
        body["failures"] = sighting.failures
    if sighting.took:
        body["took"] = sighting.took
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def from_json(text: str) -> Sighting:
    """Inverse of `to_json`; raises ValueError, KeyError or TypeError on what is no sighting."""
    body: dict[str, Any] = json.loads(text)
    return Sighting(
        at=int(body["at"]),
        groups=tuple(SeenGroup(*seen) for seen in body["groups"]),
        leaders=tuple((int(p), int(broker), int(epoch)) for p, broker, epoch in body["leaders"]),
        brokers=tuple((int(broker), bool(answered)) for broker, answered in body["brokers"]),
        members={
            group: tuple((str(member), str(i), str(client), str(host)) for member, i, client, host in seen)
            for group, seen in body.get("members", {}).items()
        },
        listed=None if body.get("listed") is None else frozenset(map(str, body["listed"])),
        failures={int(broker): str(why) for broker, why in body.get("failures", {}).items()},
        took=int(body.get("took", 0)),
    )
