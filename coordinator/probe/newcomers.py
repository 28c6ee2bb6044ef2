"""Members that join phase after phase, by the member lists of samples: a storm that writes no record.

A member that stays is in every list. A member that is new in a list has joined. A process that crashes and
starts again has another member id each time, but the same client id and mostly the same host. Several members
that join at once, as in a scale-out, count once. If the list before is not remembered completely, no member
counts as new. If no single client is behind a third of the join phases, the application is named by what the
names of its clients have in common: an autoscaler's pods have another name each time.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.commits.client_families import instance_of
from rebalance_monitor.coordinator.storms import offenders

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Sequence

    from rebalance_monitor.coordinator.findings.finding import Details

Newcomer = tuple[int, str, str, str, str]
"""When it was first listed (ms), member id, instance id or "", client id, host."""

_LEAST, _LEAST_SHARE, _CLEARLY, _KEPT = 3, 0.1, 2, 200


def add_newcomers(
    known: Sequence[Newcomer],
    members: Collection[tuple[str, str, str, str]],
    before: Container[str],
    at: int,
    since: int,
) -> list[Newcomer]:
    """Return `known` after `since` (ms), and the `members` listed at `at` but not `before`."""
    came = [(at, *member) for member in members if member[0] not in before]
    return [one for one in [*known, *came] if one[0] > since][-_KEPT:]


def worst(known: Sequence[Newcomer], since: int, barriers: int, published: str = "") -> Details:
    """Return the client that joined most often after `since` (ms); nothing if none joined often enough.

    Its share is of the `barriers`: join phases that samples saw begin. If the client moves from host to host,
    no host is returned. If another client was `published`, it must have joined twice as often.
    """
    recent = [
        (at, member, instance, instance_of(client), host)
        for at, member, instance, client, host in known
        if at > since
    ]
    times = Counter(client for _, client in {(one[0], one[3]) for one in recent})
    client, count = _most(times)
    if not offenders.is_main(count / max(barriers, 1)) and (several := _common(recent, barriers)):
        return several
    if count < max(_LEAST, _LEAST_SHARE * len({one[0] for one in recent})):
        return {}
    if client != published and count < _CLEARLY * times[published]:
        client, count = published, times[published]
    own = [one for one in recent if one[3] == client]
    host, there = _most(Counter(one[4] for one in own))
    found: Details = {"worst_client": client, "worst_share": round(count / max(barriers, count), 2)}
    if 2 * there >= len(own):
        found["worst_host"] = host
        own = [one for one in own if one[4] == host]
    _, member, instance, *_ = own[-1]
    found["worst_member"] = member
    return found | ({"worst_instance": instance} if instance else {})


def _common(recent: Sequence[Newcomer], barriers: int) -> Details:
    """Return the application whose clients joined in most join phases; each phase counts once."""
    by_phase = {at: client for at, _, _, client, _ in recent}
    return offenders.common(Counter(by_phase.values()), barriers) if len(by_phase) >= _LEAST else {}


def _most(tally: Counter[str]) -> tuple[str, int]:
    return min(tally.items(), key=lambda one: (-one[1], one[0]), default=("", 0))
