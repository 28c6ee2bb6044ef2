"""What a process makes of the memory that the one before it left, under another configuration. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.incidents.alert import fingerprint

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from rebalance_monitor.alerts.dispatch.plan import Memory
    from rebalance_monitor.alerts.incidents.alert import Alert


def renamed(memory: Memory, cluster: str, now: int) -> Iterator[Alert]:
    """Yield what open alerts of another name of the cluster become: each ends, and goes on under `cluster`.

    One monitor watches one cluster. The alarm of a way out only ends: it is raised anew where it still fails.
    """
    for alert in list(memory.engine.alerts.values()):
        if alert.finding.cluster == cluster or alert.resolved(now):
            continue
        yield replace(alert, ends_at=now)
        sink = alert.finding.details.get("sink")
        if sink in memory.paces:
            memory.paces[str(sink)].alarmed = -1
        elif sink is None:
            finding = replace(alert.finding, cluster=cluster)
            labels = {**alert.labels, "cluster": cluster}
            yield replace(alert, fingerprint=fingerprint(finding), labels=labels, finding=finding)


def orphaned(memory: Memory, ways: Container[str]) -> dict[str, int]:
    """Forget sinks that the configuration no longer has; return how many delivered threads each left open."""
    gone = [way for way in memory.threads if way[0] not in ways]
    open_ones = Counter(way[0] for way in gone if memory.threads[way].is_known_to_receiver)
    for way in gone:
        del memory.threads[way]
    for name in [name for name in memory.paces if name not in ways]:
        del memory.paces[name]
    return dict(open_ones)


def rested(memory: Memory) -> None:
    """Forget that ways out refused for good to which nothing is owed: people restart what they have mended.

    Nothing would show it before the next alert. What is owed is tried at once, and shows how it is.
    """
    owed = {way[0] for way in memory.engine.pending}
    owed |= {
        way[0] for way, thread in memory.threads.items() if thread.is_known_to_receiver or thread.uncertain
    }
    for name, pace in memory.paces.items():
        if pace.permanent and name not in owed:
            pace.rest()
