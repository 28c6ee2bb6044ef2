"""A dispatch on a clock that the test moves; sinks are scripted answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rebalance_monitor.alerts.dispatch.dispatch import Dispatch
from rebalance_monitor.alerts.dispatch.plan import Memory
from rebalance_monitor.alerts.messages.notification import Phase, SinkError
from rebalance_monitor.alerts.setup.receivers import plan_of
from rebalance_monitor.config.alerts import Alerts
from rebalance_monitor.config.model import Settings
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.alerts.support.findings import AT, finding

if TYPE_CHECKING:
    from collections.abc import Callable

    from rebalance_monitor.alerts.dispatch.plan import Outgoing
    from rebalance_monitor.alerts.engine.decision import Reason
    from rebalance_monitor.alerts.routing.labels import Labels
    from rebalance_monitor.coordinator.findings.finding import Finding

SECOND, MINUTE = 1_000, 60_000
SLACK = {"token": "xoxb-none", "channel": "C0123ABCD"}
BASE: dict[str, Any] = {
    "receivers": [{"name": "sre", "slack": SLACK}, {"name": "pager", "pagerduty": {"routing_key": "r"}}],
    "route": {"receiver": "sre", "routes": [{"matchers": ['severity="critical"'], "receiver": "pager"}]},
}
PAGER = "pager/pagerduty"
ONLY_SLACK: dict[str, Any] = {**BASE, "route": {"receiver": "sre"}}


@dataclass
class Play:
    """Runs a dispatcher by simulated seconds.

    `broken`: way -> the error that its sink answers with. `refused`: a group that no service takes.
    """

    section: dict[str, Any] = field(default_factory=lambda: ONLY_SLACK)
    now: int = AT
    broken: dict[str, SinkError] = field(default_factory=dict)
    told: list[tuple[int, Outgoing]] = field(default_factory=list)
    tried: int = 0
    silenced: Callable[[Labels, int], bool] = lambda _labels, _now: False
    memory: Memory = field(default_factory=Memory)
    refused: str = ""
    cluster: str = "prod"

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begin, or begin again with what is in the memory."""
        settings = Settings(alerts=Alerts(**self.section))
        plan = plan_of(settings, self.cluster, lambda labels, now: self.silenced(labels, now))  # noqa: PLW0108 - it is set later
        self.dispatch = Dispatch(plan, self.memory, lambda: 0.5, self.now)

    def happens(self, *findings: Finding) -> None:
        known = [replace(one, at=self.now, detected_at=self.now) for one in findings]
        self.dispatch.take(known, self.now)
        self.dispatch.watchdog.batch_at = self.now

    def run(self, ms: int, step: int = SECOND) -> list[tuple[str, Phase, Reason]]:
        """Let time pass; return what was notified: receiver, phase, reason."""
        fresh = []
        for now in range(self.now, self.now + ms + 1, step):
            self.now = now
            self.dispatch.advance(now)
            while outgoing := self.dispatch.ready(now):
                fresh += [one for one in outgoing if self._answer(one)]
        self.told += [(self.now, one) for one in fresh]
        return [(one.way[0], one.notification.phase, one.due.reason) for one in fresh]

    def _answer(self, outgoing: Outgoing) -> bool:
        self.tried += 1
        error = self.broken.get(outgoing.way[0])
        groups = {alert.labels.get("group") for alert in outgoing.notification.alerts}
        if self.refused and self.refused in groups:
            error = SinkError("the service answered 413", permanent=True)
        if error is None:
            self.dispatch.arrived(outgoing, {"ts": outgoing.notification.thread}, self.now)
        else:
            self.dispatch.failed(outgoing, error, self.now)
        return error is None

    def heard(self, way: str) -> list[Outgoing]:
        """Return what this integration was sent."""
        return [one for _, one in self.told if one.way[0] == way]

    @property
    def last(self) -> Outgoing:
        return self.told[-1][1]


def storm(phase: str = "opened", group: str = "orders", **changes: Any) -> Finding:  # noqa: ANN401
    return finding(
        Kind.STORM, phase=phase, group=group, incident=f"i-{group}", id=f"{phase}-{group}", **changes
    )
