"""What one look of the probe saw, as plain data, and its JSON-line form (`sightings.jsonl` of a capture).

`members`, `listed`, `failures` and `took` stand beside the rest where there is something to say: who was in a
rebalancing group, which groups there are at all, why a broker gave nothing, how
long the look took.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sighting:
    """One look at `at` (ms since epoch).

    groups: (group, state, type, protocol type), only rebalancing ones; leaders: (partition, broker, epoch);
    brokers: (broker, answered), broker -1 where the cluster did not even tell its brokers; members: group ->
    (member id, instance id, client id, host) of classic groups; failures: broker -> one sentence; listed: all
    groups, where this look asked for them; took: ms until the last broker had answered.
    """

    at: int
    groups: tuple[tuple[str, str, str, str], ...] = ()
    leaders: tuple[tuple[int, int, int], ...] = ()
    brokers: tuple[tuple[int, bool], ...] = ()
    members: dict[str, tuple[tuple[str, str, str, str], ...]] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    listed: frozenset[str] | None = None
    took: int = 0

    def to_json(self) -> str:
        """Give the sighting as one line without a line break."""
        body: dict[str, object] = {
            "at": self.at,
            "groups": self.groups,
            "leaders": self.leaders,
            "brokers": self.brokers,
        }
        if self.members:
            body["members"] = self.members
        if self.listed is not None:
            body["listed"] = sorted(self.listed)
        if self.failures:
            body["failures"] = self.failures
        if self.took:
            body["took"] = self.took
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
