"""Threads: what one way out knows of one group of alerts, from its first notification to its last. Pure.

A thread is one Slack thread, one PagerDuty incident. It begins with the first alert of the group and ends
with the notification that says that all are over; the next alert begins another one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.incidents.tally import Tally
from rebalance_monitor.alerts.messages.notification import MAX_NEWS, Notification, Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rebalance_monitor.alerts.engine.engine import Way
    from rebalance_monitor.alerts.incidents.alert import Alert
    from rebalance_monitor.alerts.messages.blocks import Message
    from rebalance_monitor.alerts.routing.labels import Labels
    from rebalance_monitor.coordinator.findings.finding import Finding

PROBES = 8
"""Failed attempts after which others are tried first."""
MAX_SENT = 20
ROOM = 1_000
"""A thread keeps at least so many names of groups before it checks which of them still have alerts."""


@dataclass(slots=True)
class Thread:
    """One thread. Times in ms.

    `notified_at`: when its last notification arrived, -1 for never. `sequence`: notifications that arrived.
    `uncertain`: an attempt since then may have arrived. `attempts`: failed attempts since then. `state`: what
    the sink keeps. `news`: findings since then. `last_alerts`: as last sent, for an end that was never seen.
    `acknowledged`: the silence of its alerts was sent. `groups`: groups whose rebalances count; more than
    `room` of them are trimmed, because a thread over many groups may stay open for months.
    """

    id: str
    opened_at: int
    notified_at: int = -1
    sequence: int = 0
    attempts: int = 0
    uncertain: bool = False
    acknowledged: bool = False
    state: dict[str, str] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    news: list[Finding] = field(default_factory=list)
    groups: set[str] = field(default_factory=set)
    last_alerts: list[Alert] = field(default_factory=list)
    room: int = field(default=ROOM, compare=False)

    @property
    def is_known_to_receiver(self) -> bool:
        """Whether the receiver knows of it."""
        return self.notified_at >= 0

    @property
    def may_be_known(self) -> bool:
        """Whether the receiver knows of it, or may: an attempt may have arrived."""
        return self.is_known_to_receiver or self.uncertain

    def learn(self, finding: Finding) -> None:
        """Add news to the thread."""
        self.news = [*self.news, finding][-MAX_NEWS:]

    def concern(self, alert: Alert) -> None:
        """Let the rebalances of this alert's groups count."""
        self.groups.update(alert.finding.groups)
        if alert.finding.group is not None:
            self.groups.add(alert.finding.group)

    def trim(self, alerts: Iterable[Alert]) -> None:
        """Keep the groups of open or pending alerts only."""
        self.groups.clear()
        for alert in alerts:
            self.concern(alert)
        self.room = max(ROOM, 2 * len(self.groups))

    def arrived(self, notification: Notification, state: dict[str, str], now: int) -> None:
        """Mark a notification as delivered; `state` is what its sink returned."""
        self.notified_at, self.uncertain, self.attempts = now, False, 0
        self.sequence += 1
        self.state = state
        said = {finding.id for finding in notification.news}
        self.news = [finding for finding in self.news if finding.id not in said]
        self.last_alerts = list(notification.alerts[:MAX_SENT])
        self.acknowledged = notification.phase is Phase.ACKNOWLEDGED

    def notification(self, way: Way, phase: Phase, alerts: Sequence[Alert], message: Message) -> Notification:
        """Return what the sink is handed."""
        return Notification(
            key=f"{self.id}/{phase.value}/{self.sequence}",
            thread=self.id,
            receiver=way[0],
            phase=phase,
            labels={**shared(alert.labels for alert in alerts), **dict(way[1][1])},
            alerts=tuple(alerts),
            message=message,
            opened_at=self.opened_at,
            news=tuple(self.news),
            tally=self.tally,
            state=dict(self.state),
            maybe_sent=self.uncertain,
        )


def new_thread(way: Way, alerts: Iterable[Alert], after: int = -1) -> Thread:
    """Begin a thread with at least one alert; the same alerts give the same identity after a crash.

    `after`: the last notification of this group at this integration (ms), -1 for none. A thread may end while
    one of its alerts is suppressed, and the next thread begins with that alert.
    """
    known = list(alerts)
    opened_at = min(alert.starts_at for alert in known)
    thread = Thread(thread_id(way, opened_at, after), opened_at)
    for alert in known:
        thread.concern(alert)
    return thread


def thread_id(way: Way, opened_at: int, after: int = -1) -> str:
    """Return the identity of a thread: 16 hex digits."""
    name, (path, labels) = way
    times = [str(opened_at)] if after < 0 else [str(opened_at), str(after)]
    text = "\0".join([name, path, *(f"{label}={value}" for label, value in labels), *times])
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def shared(labels: Iterable[Labels]) -> Labels:
    """Return the labels that all of these have with the same value."""
    common: Labels | None = None
    for one in labels:
        common = dict(one) if common is None else {k: v for k, v in common.items() if one.get(k) == v}
    return common or {}


def phase_of(thread: Thread, *, firing: bool, again: bool) -> Phase:
    """Return where the thread stands with its next notification; `again`: nothing is new."""
    if not firing:
        return Phase.RESOLVED
    if not thread.is_known_to_receiver:
        return Phase.OPENED
    return Phase.REPEATED if again else Phase.UPDATED


def count(threads: Iterable[Thread], findings: Iterable[Finding]) -> None:
    """Add findings to the tallies of the threads that concern their groups."""
    concerned: dict[str, list[Thread]] = {}
    for thread in threads:
        for group in thread.groups:
            concerned.setdefault(group, []).append(thread)
    for finding in findings:
        for thread in concerned.get(finding.group or "", ()):
            thread.tally = thread.tally.add(finding)


def rank(thread: Thread | None, way: Way) -> tuple[int, bool, int, int, Way]:
    """Order what waits: a failing way is probed with what may have arrived already.

    So the rest stays untried; but nothing that always fails stands before the others for ever.
    """
    if thread is None:
        return (0, True, 0, 0, way)
    rounds = thread.attempts // PROBES
    return (rounds, not thread.uncertain, thread.attempts, thread.opened_at, way)
