"""The contract between the dispatcher and every sink, and the error that a sink raises.

A notification is one message to one receiver about one group of alerts. It is complete: a sink needs nothing
else, so a restart, a retry and a preview all send the same. Sinks block and are called by one thread at a
time. They neither retry nor store anything: the dispatcher retries, and stores `Sent.state`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from rebalance_monitor.alerts.incidents.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.alerts.incidents.alert import Alert
    from rebalance_monitor.alerts.messages.blocks import Message
    from rebalance_monitor.alerts.routing.labels import Labels
    from rebalance_monitor.coordinator.findings.finding import Finding

MAX_NEWS = 20


class Phase(StrEnum):
    """Where the thread stands.

    `acknowledged`: every firing alert in it is silenced. `repeated`: sent again without news. `resolved`: the
    last one of a thread.
    """

    OPENED = "opened"
    UPDATED = "updated"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"
    REPEATED = "repeated"


@dataclass(frozen=True, slots=True)
class Notification:
    """What the dispatcher hands to a sink. Times in ms since epoch.

    `key`: the same for every attempt to send this, different from that of any other notification (receiver,
    thread, phase, sequence within the thread). `thread`: the identity of this incident at this receiver: one
    Slack thread, one PagerDuty incident; the next incident of the same group of alerts is another thread.
    `labels`: labels that the alerts of the group share. `alerts`: the firing ones first. `news`: findings
    since the thread's last notification, oldest first, the last MAX_NEWS of them. `state`: what the sink
    returned for this thread last time, empty at first. `maybe_sent`: the service may have got a notification
    of this thread that `state` does not contain: after a crash, and on every retry. Then Slack's sink
    searches the channel's history; the others ignore it.
    """

    key: str
    thread: str
    receiver: str
    phase: Phase
    labels: Labels
    alerts: tuple[Alert, ...]
    message: Message
    opened_at: int
    news: tuple[Finding, ...] = ()
    tally: Tally = field(default_factory=Tally)
    state: Mapping[str, str] = field(default_factory=dict)
    maybe_sent: bool = True


@dataclass(frozen=True, slots=True)
class Sent:
    """The service has it. `state` goes into the ledger and into the next notification of this thread."""

    state: dict[str, str] = field(default_factory=dict)


class SinkError(Exception):
    """A notification did not arrive, or may not have; `why` names no secret and is short.

    `permanent`: the same call fails until a token, channel or address is changed. The dispatcher stops and
    raises an alert about it. Otherwise it retries, not before `retry_after_s`.
    """

    def __init__(self, why: str, *, permanent: bool = False, retry_after_s: float | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.permanent = permanent
        self.retry_after_s = retry_after_s


class Sink(Protocol):
    """One receiver's way out.

    `resend_ms`: the service forgets an alert that is not sent again at least so often (Alertmanager), so the
    dispatcher sends `repeated` for open threads, many of them as one notification: its `state` has a key for
    each alert, the alert's fingerprint. None elsewhere.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - the name in the configuration

    @property
    def kind(self) -> str: ...  # noqa: D102 - slack, pagerduty, …

    @property
    def resend_ms(self) -> int | None: ...  # noqa: D102 - see the class

    def send(self, notification: Notification, now_ms: int) -> Sent:
        """Send to the service; blocks up to the sink's timeout; raises nothing but SinkError."""
        ...

    def close(self) -> None:
        """Let connections go; the sink is not used again. Does not raise."""
        ...
