"""Facts of epoch-based groups (KIP-848 consumer, share, streams): every change is written as it happens.

Share and streams groups bump their epoch without a line in the log when a member is removed; what is known of
such an epoch (that it came, or that an assignment was computed for it) makes a fact that may be reported or
not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.lab.truth.fold import Change, Fact

if TYPE_CHECKING:
    from rebalance_monitor.lab.truth.fold import Facts, GroupFold
    from rebalance_monitor.lab.truth.truth import Truth

SILENT_TYPES = frozenset({"share", "streams"})
_REMOVALS = frozenset({"left", "expired", "join_deadline", "sync_deadline"})


def take_epochs(fold: Facts, group: GroupFold, event: Truth) -> None:
    """Fold in one event of an epoch-based group."""
    if event.what in _REMOVALS:
        _removed(fold, group, event)
        return
    match event.what:
        case "joined":
            _joined(fold, group, event)
        case "static_replaced":
            fold.replace_static(group, event)
        case "epoch":
            _bumped(fold, group, event)
        case "computed" if group.silent_bumps and event.generation > group.epoch - 1:
            _rebalanced(fold, group, event, required=event.generation >= group.epoch)


def _joined(fold: Facts, group: GroupFold, event: Truth) -> None:
    group.silent_bumps |= event.reason in SILENT_TYPES
    # No line of the log says that an administrator removed a member.
    group.written -= set(event.members)
    group.members |= set(event.members)
    for member in event.members:
        fold.add_change(group, -1, group.members, Change(event.at, Cause.MEMBER_JOINED, member))
    group.written = set(group.members)


def _removed(fold: Facts, group: GroupFold, event: Truth) -> None:
    for member in event.members:
        fold.add_change(group, -1, set(), Change(event.at, fold.cause_of(group, event, member), member))
    group.members -= set(event.members)
    group.written = set(group.members)
    group.expired = event.what == "expired"
    if group.silent_bumps:
        group.epoch += 1
        if group.members:
            _rebalanced(fold, group, replace(event, generation=group.epoch), required=False)
        else:
            _emptied(fold, group, event)


def _bumped(fold: Facts, group: GroupFold, event: Truth) -> None:
    # Some brokers begin with a later number than 1; the first convergence is said to cover those before it.
    before = range(1, event.generation) if group.epoch == 0 else ()
    fold.facts += [Fact(Kind.REBALANCE, group.name, one, "", event.at, required=False) for one in before]
    # An Empty and a first start are reported once per emptiness, by whichever epoch their run ends with.
    group.epoch = event.generation
    if group.members:
        _rebalanced(fold, group, event, required=True)
    else:
        # Its number may be reported within the convergence that follows.
        fact = Fact(Kind.REBALANCE, group.name, event.generation, "", event.at, required=False)
        fold.facts.append(fact)
        if not group.began_empty:
            _emptied(fold, group, event)


def _emptied(fold: Facts, group: GroupFold, event: Truth) -> None:
    # An epoch that no member is left to acknowledge is no convergence.
    # Sooner than that no survivor acknowledges an epoch; one that expired had acknowledged nothing at all.
    pace = fold.pace
    since = event.at - (pace.session_ms if group.expired else 2 * pace.heartbeat_ms)
    fold.facts = [
        replace(fact, required=False) if _cut_short(fact, group.name, since) else fact for fact in fold.facts
    ]
    fold.facts.append(Fact(Kind.GROUP_EMPTY, group.name, -1, "", event.at))
    group.began_empty = True


def _cut_short(fact: Fact, group: str, since: int) -> bool:
    return fact.group == group and fact.label == Kind.REBALANCE and fact.at > since


def _rebalanced(fold: Facts, group: GroupFold, event: Truth, *, required: bool) -> None:
    fold.facts.append(Fact(Kind.REBALANCE, group.name, event.generation, "", event.at, required=required))
    if group.began_empty:
        fold.facts.append(Fact(f"cause:{Cause.FIRST_START}", group.name, -1, "", event.at))
    group.began_empty = False
