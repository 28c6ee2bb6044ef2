"""One probe sample, and its JSON-line form (`sightings.jsonl` of a capture).

The probe (`cluster/probe/`) asks every broker once a second which groups are rebalancing (ListGroups by
state, KIP-518) and which members they have (DescribeGroups). One round of answers is one sample. The probe
makes it, captures keep it, the coordinator reads it. States have the broker's names (`PreparingRebalance`,
`CompletingRebalance`, `Assigning`, `Reconciling`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.findings.names import short

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class RebalancingGroup:
    """A group that the brokers reported as rebalancing."""

    group: str
    state: str
    group_type: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class ProbeSample:
    """The brokers' answers at `at` (ms since epoch).

    `groups`: only those that rebalance. `leaders`: (partition of the offsets topic, broker, leader epoch).
    `brokers`: (broker, answered); broker -1 if the cluster did not even name its brokers. `members`: group ->
    (member id, instance id or "", client id, host), for the classic groups. `listed`: all groups if this
    sample asked for them, else None. `failures`: broker -> why it did not answer, one sentence. `took`: ms
    until the last broker had answered.
    """

    at: int
    groups: tuple[RebalancingGroup, ...] = ()
    leaders: tuple[tuple[int, int, int], ...] = ()
    brokers: tuple[tuple[int, bool], ...] = ()
    members: dict[str, tuple[tuple[str, str, str, str], ...]] = field(default_factory=dict)
    listed: frozenset[str] | None = None
    failures: dict[int, str] = field(default_factory=dict)
    took: int = 0


def groups_seen(samples: Iterable[ProbeSample]) -> frozenset[str]:
    """Return the groups that were seen to rebalance."""
    return frozenset(one.group for sample in samples for one in sample.groups)


def with_short_names(sample: ProbeSample) -> ProbeSample:
    """Return the sample with its names cut as a coordinator's outputs are, by which they are matched."""
    return replace(
        sample,
        groups=tuple(
            RebalancingGroup(short(one.group), one.state, one.group_type, short(one.protocol_type))
            for one in sample.groups
        ),
        members={
            short(group): tuple((short(m), short(i), short(c), short(h)) for m, i, c, h in seen)
            for group, seen in sample.members.items()
        },
        listed=None if sample.listed is None else frozenset(map(short, sample.listed)),
    )


def to_json(sample: ProbeSample) -> str:
    """One JSON line without a line break."""
    body: dict[str, Any] = {
        "at": sample.at,
        "groups": [[g.group, g.state, g.group_type, g.protocol_type] for g in sample.groups],
        "leaders": [list(leader) for leader in sample.leaders],
        "brokers": [list(broker) for broker in sample.brokers],
    }
    if sample.members:
        body["members"] = sample.members
    if sample.listed is not None:
        body["listed"] = sorted(sample.listed)
    if sample.failures:
        body["failures"] = sample.failures
    if sample.took:
        body["took"] = sample.took
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def from_json(text: str) -> ProbeSample:
    """Inverse of `to_json`; raises ValueError, KeyError or TypeError on text that is no sample."""
    body: dict[str, Any] = json.loads(text)
    sample = ProbeSample(
        at=int(body["at"]),
        groups=tuple(_group(*seen) for seen in body["groups"]),
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
    return with_short_names(sample)


def _group(*words: object) -> RebalancingGroup:
    texts = [word for word in words if isinstance(word, str)]
    if len(texts) < len(words):
        raise TypeError("a word about a group is no text")
    return RebalancingGroup(*texts)
