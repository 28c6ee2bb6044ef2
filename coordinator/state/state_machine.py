"""The group state machine as data: what the coordinator does, and what of it the topic or the probe shows.

Rules of the classic protocol (KIP-62, KIP-345, KIP-394): a rebalance is `Stable -> PreparingRebalance ->
CompletingRebalance -> Stable`; only the last step and `-> Empty` write a record, so the two states between
are never read from records, only inferred from what follows or seen by the probe. Epoch-based groups
(KIP-848) pass `Assigning` and `Reconciling` instead: their state follows from the epochs of group, target and
members, as the coordinator's API computes it, and no record takes it along an edge that is not here. An event
that is not in the table for a state is illegal: it changes nothing and raises nothing, and the coordinator
takes the record as a new baseline with cause unknown. An epoch-based group of which no epoch was read, or
whose members are not all known, is `Unknown`, as Kafka calls it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """A group's state, in the broker's own words."""

    DEAD = "Dead"
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    UNKNOWN = "Unknown"


SETTLED = frozenset({Status.STABLE, Status.EMPTY})
"""States of an epoch-based group that has reached its newest epoch."""


class Event(StrEnum):
    """What moves a group from one state to another."""

    PLACEHOLDER = "placeholder record (generation 0)"
    GENERATION = "record of a new generation"
    STATIC_REWRITE = "record of the same generation"
    EMPTIED = "record without members"
    TOMBSTONE = "tombstone"
    REBALANCE_STARTED = "member joins, leaves or expires"
    JOIN_ENDED = "join phase ends"
    EPOCH_BUMPED = "group epoch bumped"
    TARGET_COMPUTED = "target assignment written"
    CONVERGED = "every member acknowledged the target"
    DESCRIBED = "member described, or gone"
    BEHIND = "member must still catch up, or revoke"
    LOST_SIGHT = "last member known so far gone"


@dataclass(frozen=True, slots=True)
class Transition:
    """One edge; `tier` is read where a record shows it, derived or suspected where it must be inferred."""

    before: Status
    event: Event
    after: Status
    tier: str


TRANSITIONS: tuple[Transition, ...] = (
    Transition(Status.DEAD, Event.PLACEHOLDER, Status.EMPTY, "read"),
    Transition(Status.DEAD, Event.GENERATION, Status.STABLE, "read"),
    Transition(Status.DEAD, Event.EMPTIED, Status.EMPTY, "read"),
    Transition(Status.EMPTY, Event.PLACEHOLDER, Status.EMPTY, "read"),
    Transition(Status.EMPTY, Event.REBALANCE_STARTED, Status.PREPARING, "suspected"),
    Transition(Status.EMPTY, Event.GENERATION, Status.STABLE, "read"),
    Transition(Status.EMPTY, Event.EMPTIED, Status.EMPTY, "read"),
    Transition(Status.EMPTY, Event.TOMBSTONE, Status.DEAD, "read"),
    Transition(Status.PREPARING, Event.JOIN_ENDED, Status.COMPLETING, "derived"),
    Transition(Status.PREPARING, Event.GENERATION, Status.STABLE, "read"),
    Transition(Status.PREPARING, Event.EMPTIED, Status.EMPTY, "read"),
    Transition(Status.COMPLETING, Event.REBALANCE_STARTED, Status.PREPARING, "derived"),
    Transition(Status.COMPLETING, Event.GENERATION, Status.STABLE, "read"),
    Transition(Status.STABLE, Event.REBALANCE_STARTED, Status.PREPARING, "suspected"),
    Transition(Status.STABLE, Event.GENERATION, Status.STABLE, "read"),
    Transition(Status.STABLE, Event.STATIC_REWRITE, Status.STABLE, "read"),
    Transition(Status.STABLE, Event.EMPTIED, Status.EMPTY, "read"),
    Transition(Status.STABLE, Event.TOMBSTONE, Status.DEAD, "read"),
    Transition(Status.DEAD, Event.EPOCH_BUMPED, Status.ASSIGNING, "read"),
    Transition(Status.EMPTY, Event.EPOCH_BUMPED, Status.ASSIGNING, "read"),
    Transition(Status.STABLE, Event.EPOCH_BUMPED, Status.ASSIGNING, "read"),
    Transition(Status.RECONCILING, Event.EPOCH_BUMPED, Status.ASSIGNING, "read"),
    Transition(Status.ASSIGNING, Event.EPOCH_BUMPED, Status.ASSIGNING, "read"),
    Transition(Status.ASSIGNING, Event.TARGET_COMPUTED, Status.RECONCILING, "read"),
    Transition(Status.ASSIGNING, Event.CONVERGED, Status.STABLE, "read"),
    Transition(Status.RECONCILING, Event.CONVERGED, Status.STABLE, "read"),
    Transition(Status.DEAD, Event.DESCRIBED, Status.UNKNOWN, "read"),
    Transition(Status.EMPTY, Event.DESCRIBED, Status.UNKNOWN, "read"),
    Transition(Status.STABLE, Event.DESCRIBED, Status.RECONCILING, "read"),
    Transition(Status.RECONCILING, Event.DESCRIBED, Status.STABLE, "read"),
    Transition(Status.EMPTY, Event.BEHIND, Status.RECONCILING, "read"),
    Transition(Status.STABLE, Event.BEHIND, Status.RECONCILING, "read"),
    Transition(Status.RECONCILING, Event.BEHIND, Status.RECONCILING, "read"),
    Transition(Status.ASSIGNING, Event.EMPTIED, Status.EMPTY, "read"),
    Transition(Status.RECONCILING, Event.EMPTIED, Status.EMPTY, "read"),
    Transition(Status.STABLE, Event.LOST_SIGHT, Status.UNKNOWN, "read"),
    Transition(Status.ASSIGNING, Event.LOST_SIGHT, Status.UNKNOWN, "read"),
    Transition(Status.RECONCILING, Event.LOST_SIGHT, Status.UNKNOWN, "read"),
    Transition(Status.UNKNOWN, Event.EPOCH_BUMPED, Status.ASSIGNING, "read"),
    Transition(Status.UNKNOWN, Event.TARGET_COMPUTED, Status.RECONCILING, "read"),
    Transition(Status.UNKNOWN, Event.CONVERGED, Status.STABLE, "read"),
    Transition(Status.UNKNOWN, Event.EMPTIED, Status.EMPTY, "read"),
    Transition(Status.UNKNOWN, Event.TOMBSTONE, Status.DEAD, "read"),
    Transition(Status.ASSIGNING, Event.TOMBSTONE, Status.DEAD, "read"),
    Transition(Status.RECONCILING, Event.TOMBSTONE, Status.DEAD, "read"),
)
"""Every legal edge, in the order of the documentation."""

EDGES: dict[tuple[str, Event], Transition] = {(edge.before, edge.event): edge for edge in TRANSITIONS}
"""State and event -> the edge that the event takes from there; what is not in it is illegal there."""
