"""One record, or one clock row, of one group: fills in the fields that every finding of the group has.

Findings of the shard's coordinator are made here: `find` for any, `resolve` for one that ends an incident.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.findings.finding import (
    MAX_TOPICS,
    RESOLVED,
    incident_id,
    make,
    record_anchor,
)
from rebalance_monitor.decoders.layouts.twins import quickly_made

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Details, Finding
    from rebalance_monitor.coordinator.findings.kinds import Kind, Severity
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.coordinator.state.group_state import GroupState


_UNREAD = -1


@quickly_made
@dataclass(frozen=True, slots=True)
class Scene:
    """One record (or, with offset -1, one clock row) of one group; `ts` in ms, `settings` the group's own.

    `complete`: the shard was read from its beginning, so a group not known yet is a new one. `whole_since`:
    records before this offset may have been cleaned away unread.
    """

    cluster: str
    shard: int
    group: str
    settings: DetectionSettings
    offset: int
    ts: int
    history: bool
    complete: bool = False
    whole_since: int = -1

    @property
    def anchor(self) -> str:
        """Anchor of what this record decides."""
        return record_anchor(self.shard, self.offset, self.ts)

    def incident_of(self, kind: Kind) -> str:
        """Return the incident that this record opens, before the finding that does is made."""
        return incident_id(self.cluster, kind, self.group, self.anchor)

    def find(
        self,
        kind: Kind,
        state: GroupState,
        *,
        at: int,
        details: Details,
        evidence: str = "read",
        anchor: str = "",
        member: str = "",
        phase: str | None = None,
        sequence: int = 0,
        severity: Severity | None = None,
        **fields: Any,  # noqa: ANN401 -- the remaining fields of Finding, checked by its constructor
    ) -> Finding:
        """Make a finding about the group as `state` describes it; its incident as `make` does."""
        # KIP-848 records carry topic ids, not names: only the names resolved so far are shown.
        topics = state.subscriptions.names or ([] if state.group_type == "consumer" else state.topics)
        for name in ("previous_generation", "opened_at"):
            if fields.get(name) == _UNREAD:
                fields[name] = None
        values: dict[str, Any] = {
            "group_type": state.group_type,
            "protocol_type": state.protocol_type,
            "protocol": state.protocol or None,
            "state": state.status,
            "generation": _known(state.generation),
            "leader": state.leader or None,
            "topics": tuple(topics[:MAX_TOPICS]),
            "topics_total": len(topics),
            "offset": None if self.offset < 0 else self.offset,
            "members_total": len(state.members),
            **fields,
        }
        return make(
            kind,
            cluster=self.cluster,
            anchor=anchor or self.anchor,
            group=self.group,
            overrides=self.settings.severity_of if self.settings.severity_overrides else None,
            severity=severity,
            member=member,
            phase=phase,
            sequence=sequence,
            evidence=evidence,
            history=self.history,
            shard=self.shard,
            at=at,
            details=details,
            **values,
        )

    def resolve(
        self,
        kind: Kind,
        state: GroupState,
        incident: str,
        resolution: str,
        *,
        at: int,
        details: Details,
        **fields: Any,  # noqa: ANN401 -- as above
    ) -> Finding:
        """Make the finding that ends `incident`, at `at` (ms), for the reason that `resolution` names."""
        return self.find(
            kind,
            state,
            at=at,
            phase=RESOLVED,
            incident=incident,
            resolution=resolution,
            details=details,
            **fields,
        )


def _known(generation: int) -> int | None:
    """Return a generation, or an epoch, None where none was read."""
    return None if generation == _UNREAD else generation
