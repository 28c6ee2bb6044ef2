"""Groups as the version before wrote them: one row of fields, which now stand in structs by concern.

A state of that version is read once, at the first start of this one, and written in the new form from then
on. A group of an older release yet may lack the newest of its fields: they take their defaults. The next
change of the form replaces these tables.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rebalance_monitor.coordinator.state.group_state import (
    Changes,
    Checks,
    Emptiness,
    Epochs,
    GroupState,
    Learned,
    Rebalances,
    StormState,
    Stuck,
    Subscriptions,
)

FLAT = 7
"""The last version of the codec that wrote them."""

_GONE = ""
_GROUP = (
    *("group_type", "status", "protocol_type", "protocol", "generation", "leader", "cst", "ts", "offset"),
    *("live", "started_at", "members", "topics", "totals", "learned.idle_families", "last_commit", _GONE),
    *("rebalances.failed", "storm", "empty.incident", "empty.at", "empty.expiring", "checks.too_large"),
    *("rebalances.at", "rebalances.causes", "probing_at", "connect", "checks.skewed", "last_summary"),
    *("dirty", "epochs.target", "epochs.stable", "epochs.bumped_at", "changes.bumps", "subscriptions.names"),
    *("changes.departed", "changes.verdicts", "changes.silences", "changes.newcomers"),
    *("epochs.metadata_hash", "changes.rehashed", "changes.resubscribed", "subscriptions.aliases"),
    *("subscriptions.committed", "subscriptions.committed_at", "stuck.suspected", "stuck.since"),
    *("stuck.incident", "wake", "checks.unsubscribed", "rebalances.holes", "rebalances.migrated"),
    *("subscriptions.topics", "resumed_at", "empty.is_reported", "storm.takeovers", "changes.uncounted"),
    *("epochs.unread_at", "empty.dropped_at", "epochs.counted_at", "empty.visits", "checks.unassigned"),
    *("checks.unowned", "learned.beats", "learned.ways", "positions", "stuck.is_critical", "stuck.waits_for"),
)
"""Where each field of such a group is now, in its order."""

_OF_MEMBERS = frozenset({"members", "changes.departed"})
_GONE_OF_MEMBER = frozenset({13, 26})
"""Places of a member's fields that are no more: its first commit, and when it last committed after a gap."""

_PARTS = (
    GroupState,
    StormState,
    Rebalances,
    Learned,
    Epochs,
    Changes,
    Subscriptions,
    Emptiness,
    Stuck,
    Checks,
)
_TYPES = {(part, field.name): field.type for part in _PARTS for field in msgspec.structs.fields(part)}


def upgraded(old: list[Any]) -> GroupState:
    """Return a group of version `FLAT`. Raises ValueError for what that version did not write."""
    if len(old) > len(_GROUP):
        raise ValueError(f"a group of {len(old)} fields")
    found = GroupState()
    for path, value in zip(_GROUP, old, strict=False):
        if path == _GONE:
            continue
        whose, _, name = path.rpartition(".")
        owner = getattr(found, whose) if whose else found
        written = [_member(one) for one in value] if path in _OF_MEMBERS else value
        setattr(owner, name, msgspec.convert(written, _TYPES[type(owner), name]))
    return found


def _member(old: list[Any]) -> list[Any]:
    return [value for place, value in enumerate(old) if place not in _GONE_OF_MEMBER]
