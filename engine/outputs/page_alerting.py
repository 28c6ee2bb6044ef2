"""What the page does with alerts: silences as the command line adds them, the journal of notifications."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rebalance_monitor.alerts.routing.labels import labels_of
from rebalance_monitor.alerts.runtime.journal import notified
from rebalance_monitor.alerts.runtime.silences import SilenceFiles
from rebalance_monitor.dashboard.web.api.alerting import NoAlerting
from rebalance_monitor.dashboard.web.http.access import NO_WRITERS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rebalance_monitor.alerts.runtime.silences import Silence
    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.dashboard.web.views.alerting_shapes import NotifiedRow, SilenceRow, SilenceWanted
    from rebalance_monitor.engine.storage import Storage


class PageAlerting:
    """The alerts of one job, in its storage folder (dashboard/web/api/alerting.py)."""

    def __init__(self, settings: Settings, storage: Storage) -> None:
        self.teams: Mapping[str, str] = settings.detection.teams
        self.is_on = settings.alerts.is_on
        self.refused = _refused(settings)
        self._folder = storage.alerts
        self._files = SilenceFiles(storage.alerts)

    def silences(self, about: Finding | None = None) -> Sequence[SilenceRow]:
        """Return the silences that have not ended, the first to end first. Raises OSError."""
        now = _now()
        known, _damaged = self._files.read()
        labels = None if about is None else labels_of(about, self.teams)
        return [
            _row(one)
            for one in sorted(known, key=lambda one: one.ends_at)
            if one.ends_at > now and (labels is None or one.covers(labels))
        ]

    def add(self, wanted: SilenceWanted) -> SilenceRow:
        """Add a silence from now on. Raises SilenceError, OSError."""
        made = self._files.add_for(
            wanted["lasts"], wanted["matchers"], wanted["created_by"], wanted["comment"], _now()
        )
        return _row(made)

    def expire(self, identity: str) -> SilenceRow:
        """End a silence now. Raises SilenceError, OSError."""
        return _row(self._files.expire(identity, _now()))

    def notified(self, identities: Collection[str], limit: int) -> Sequence[NotifiedRow]:
        """Return the notifications about incidents or findings of these ids. Raises OSError."""
        return [
            {
                "at": entry["at"],
                "receiver": entry["receiver"],
                "phase": entry["phase"],
                "reason": entry["reason"],
                "title": entry["title"],
                "firing": entry["firing"],
                "resolved": entry["resolved"],
            }
            for entry in notified(self._folder, identities, limit)
        ]


def _refused(settings: Settings) -> str:
    if not settings.alerts.is_on:
        return NoAlerting.refused
    return "" if settings.web.has_token or settings.web.proxies else NO_WRITERS


def _row(silence: Silence) -> SilenceRow:
    return {
        "id": silence.id,
        "matchers": list(silence.matchers),
        "starts_at": silence.starts_at,
        "ends_at": silence.ends_at,
        "created_by": silence.created_by,
        "comment": silence.comment,
    }


def _now() -> int:
    return time.time_ns() // 1_000_000
