"""Which alerts are muted: inhibition and silences, with Alertmanager's meaning. Pure.

Built once per flush of all groups: every alert is asked about, and every firing one may inhibit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_monitor.alerts.incidents.suppression import Swallowing
from rebalance_monitor.alerts.routing.matchers import all_match

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from rebalance_monitor.alerts.incidents.alert import Alert
    from rebalance_monitor.alerts.routing.labels import Labels
    from rebalance_monitor.alerts.routing.routes import InhibitRule

Values = tuple[str, ...]


class Hush:
    """What holds at `now` (ms); `silenced` says whether a silence covers these labels then."""

    def __init__(
        self,
        rules: Sequence[InhibitRule],
        alerts: Collection[Alert],
        silenced: Callable[[Labels, int], bool],
        now: int,
    ) -> None:
        self._silenced = silenced
        self._now = now
        self._swallowing = Swallowing(alerts, now)
        self._sources = [(rule, _by_equal(rule, alerts, now)) for rule in rules]

    def mutes(self, alert: Alert) -> bool:
        """Whether a rule or a silence holds this alert back, its end included."""
        return self._silenced(alert.labels, self._now) or self._inhibits(alert.labels)

    def swallows(self, alert: Alert) -> bool:
        """Whether another alert explains this one, so that it needs no notification of its own."""
        return self._swallowing.swallows(alert)

    def _inhibits(self, labels: Labels) -> bool:
        found = ((rule, sources.get(_values(rule, labels))) for rule, sources in self._sources)
        return any(
            one_sided is not None and rule.inhibits(labels, one_sided=one_sided) for rule, one_sided in found
        )


def _by_equal(rule: InhibitRule, alerts: Collection[Alert], now: int) -> dict[Values, bool]:
    """Return the values of the shared labels that firing sources have -> whether one of them is no target."""
    found: dict[Values, bool] = {}
    for alert in alerts:
        if not alert.resolved(now) and all_match(rule.source, alert.labels):
            values = _values(rule, alert.labels)
            found[values] = found.get(values, False) or not all_match(rule.target, alert.labels)
    return found


def _values(rule: InhibitRule, labels: Labels) -> Values:
    return tuple(labels.get(name, "") for name in rule.equal)
