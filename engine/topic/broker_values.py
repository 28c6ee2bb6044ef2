"""What detection takes from the brokers, asked again while the job runs.

Retention, the largest message and the session timeouts of epoch-based groups are part of the operator's plan,
which is fixed as long as a query runs. So what has changed begins the query again with another plan, between
two batches, like a topic that has grown: a batch that runs again has the settings of its start.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING

import structlog

from rebalance_monitor.engine.settings import refreshed_settings
from rebalance_monitor.engine.topic.asking import Asking

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.cluster.clients.admin import ClusterAdmin
    from rebalance_monitor.config.detection import Detection
    from rebalance_monitor.coordinator.settings import DetectionSettings

log = structlog.get_logger()
EVERY_S = 300.0
SOON_S = 60.0
"""After a group is new: however many come and go, all are asked for at most once in this time."""


class BrokerValues(Asking):
    """Asks every `every_s` seconds, and `soon_s` after `hurry`, in a thread of its own; a context manager.

    `take` gives settings that differ from those before, once. Brokers that cannot be asked are asked again.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        section: Detection,
        settings: DetectionSettings,
        every_s: float = EVERY_S,
        soon_s: float = SOON_S,
    ) -> None:
        super().__init__(properties, "values", soon_s)
        self._section = section
        self._settings = settings
        self._at_least_s = every_s
        self._new: queue.SimpleQueue[DetectionSettings] = queue.SimpleQueue()
        self._hurry = threading.Event()
        self._asked = time.monotonic()

    def hurry(self) -> None:
        """Ask soon: a group is new, and may have a session timeout of its own."""
        self._hurry.set()

    def take(self) -> DetectionSettings | None:
        """Return the settings if they have changed since the last call, else None."""
        new = None
        while not self._new.empty():
            new = self._new.get()
        return new

    def _is_due(self) -> bool:
        return self._hurry.is_set() or time.monotonic() - self._asked >= self._at_least_s

    def _ask(self, admin: ClusterAdmin) -> None:
        # Before they are asked: a group that comes meanwhile may be missing in what they say.
        self._hurry.clear()
        try:
            found = refreshed_settings(self._settings, self._section, admin)
        except Exception:
            self._hurry.set()
            raise
        self._asked = time.monotonic()
        if found != self._settings:
            log.info("the brokers' values have changed: the query begins again")
            self._settings = found
            self._new.put(found)
