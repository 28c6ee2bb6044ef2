"""What the members of an epoch-based group subscribe to: the names of its topics.

A member's record names its topics and may hold a pattern; the topics that match it are in a record of the
pattern's own (type 16), which the coordinator writes when it has resolved it, and again when these change.
Kept once for all members with the same subscription, for as long as one has it: a group that goes over to
other topics one member after the other is never empty. Streams groups name theirs in the topology.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from rebalance_monitor.coordinator.state.roster import roster_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rebalance_monitor.coordinator.state.group_state import GroupState

_MAX_NAMES, _MAX_PATTERNS = 20, 20
_NAMED = 3
_PATTERN = "~"
"""Stands before a pattern's digest in `subscriptions`."""


def digest(value: object) -> str:
    """Digest what a member subscribes to by its record: topics, and a pattern of topics."""
    return _short("\0".join((*sorted(_topics(value)), getattr(value, "subscribed_topic_regex", None) or "")))


def note(state: GroupState, value: object, now: str, before: str) -> None:
    """Take what the record of a member of the group subscribes to: its digest is `now`, and was `before`."""
    known, topics = state.subscriptions.topics, sorted(_topics(value))[:_MAX_NAMES]
    lasts = known.get(now) == topics and before in roster_of(state).subscribed
    known[now] = topics
    if not lasts or len(state.members) == 1:
        settle(state)


def leave(state: GroupState, subscribed: str) -> None:
    """Forget the topics of a subscription if a member that has departed was the last to have it."""
    known = state.subscriptions
    if not state.members or subscribed in roster_of(state).subscribed:
        return
    if subscribed not in known.topics or not set(known.names).isdisjoint(known.topics.pop(subscribed)):
        settle(state)


def resolve(state: GroupState, key: Any, value: Any, at: int) -> None:  # noqa: ANN401 -- type 16, or a tombstone
    """Take the topics that a pattern matches by the record at `at` (ms); None: no member subscribes to it."""
    name = _PATTERN + _short(key.regular_expression)
    if value is None:
        state.subscriptions.topics.pop(name, None)
    else:
        state.changes.resolved_at = at
        patterns = sum(one.startswith(_PATTERN) for one in state.subscriptions.topics)
        if name in state.subscriptions.topics or patterns < _MAX_PATTERNS:
            state.subscriptions.topics[name] = sorted(value.topics)[:_MAX_NAMES]
    settle(state)


def of_members(state: GroupState) -> dict[str, list[str]]:
    """Return member id -> topics of a KIP-848 group; nothing where not all topics of a member are known.

    A pattern's topics are in a record of its own, a long list is cut, and a record may not have been read.
    """
    if state.group_type != "consumer" or any(
        name.startswith(_PATTERN) for name in state.subscriptions.topics
    ):
        return {}
    asked = {one.member_id: state.subscriptions.topics.get(one.subscribed, []) for one in state.members}
    return asked if all(0 < len(topics) < _MAX_NAMES for topics in asked.values()) else {}


def changed(topics: Sequence[str], before: int = -1) -> str:
    """Say that a member subscribes to other `topics` now; `before`: how many its group was assigned."""
    more = f" and {len(topics) - _NAMED} more" if len(topics) > _NAMED else ""
    which = f": {len(topics)} now ({', '.join(topics[:_NAMED])}{more})" if topics else ""
    return f"it subscribes to other topics{which}{f'; the group had {before} before' if before > 0 else ''}"


def bumped(state: GroupState, at: int) -> None:
    """Take a bump of the epoch at `at` (ms): a pattern resolved without any change has none in its write."""
    if state.changes.resolved_at != at:
        state.changes.resolved_at = -1


def settle(state: GroupState) -> None:
    """Name what is subscribed to by now. A group that has become empty keeps what it was last."""
    if not state.members:
        return
    used, known = roster_of(state).subscribed.keys(), state.subscriptions
    known.topics = {
        name: topics for name, topics in known.topics.items() if name in used or name.startswith(_PATTERN)
    }
    names = {topic for topics in known.topics.values() for topic in topics}
    if not used <= known.topics.keys():
        # The record that describes a member was not read: it may subscribe to any topic that the group had.
        names.update(known.names)
    known.names = sorted(names)[:_MAX_NAMES]


def _topics(value: object) -> tuple[str, ...]:
    found: tuple[str, ...] = getattr(value, "subscribed_topic_names", ())
    return found


def _short(text: str) -> str:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=6).hexdigest()
