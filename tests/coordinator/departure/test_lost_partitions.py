"""A client may commit partitions that it has lost: that is no sign of life of their new owner (kafka-go)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.coordinator.findings.causes import Cause
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.coordinator.support.timeline import Client, Topic, findings, of

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding

ALONE = Client("kgo-a", (0, 1, 2, 3), "kgo", "/10.0.0.1", session=45_000, rebalance=60_000)
OLD = replace(ALONE, partitions=(0, 1))
NEW = replace(ALONE, member_id="kgo-b", partitions=(2, 3), host="/10.0.0.2")
EVERY, JOINED = 10_000, 95_000


def departed(gone: int, *late: int, own: tuple[int, ...] = ()) -> Finding:
    """One has all partitions, and is joined by another, which departs at `gone` (ms).

    In its commits at `late` (ms) the old one commits all of them still; at `own` the new one does.
    """
    topic = Topic()
    topic.generation(0, 1, [ALONE])
    for place, at in enumerate(range(1_000, gone, EVERY)):
        whole = at < JOINED or at in late
        topic.commit(at, dict.fromkeys((0, 1, 2, 3) if whole else (0, 1), 100 + place))
    for place, at in enumerate(own):
        topic.commit(at, dict.fromkeys((2, 3), 200 + place))
    topic.generation(JOINED, 2, [OLD, NEW])
    topic.generation(gone, 3, [ALONE])
    return of(findings(topic.sorted()), Kind.REBALANCE)[-1]


def test_one_that_died_before_its_first_commit_is_not_kept_alive_by_what_its_sibling_commits() -> None:
    found = departed(JOINED + 45_300, 101_000)
    assert (found.causes[0].cause, found.causes[0].member_id) == (Cause.SESSION_TIMEOUT, NEW.member_id)
    assert "no commit in the 45.3 s that it was in the generation" in found.causes[0].why


def test_a_commit_of_its_own_counts_whenever_its_sibling_commits() -> None:
    found = departed(JOINED + 45_300, 101_000, own=(105_100, 115_100, 125_100, 135_100))
    assert "no commit for 5.2 s" in found.causes[0].why
