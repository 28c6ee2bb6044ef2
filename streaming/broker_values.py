"""What detection takes from the brokers, asked again while the job runs.

Retention, the largest message and the session timeouts of epoch-based groups are part of the operator's plan,
which is fixed as long as a query runs. So what has changed begins the query again with another plan, between
two batches, like a topic that has grown: a batch that runs again has the settings of its start.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

import structlog

from rebalance_monitor.cluster.admin import ClusterAdmin
from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.streaming.settings import told_again

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.config.detection import Detection
    from rebalance_monitor.coordinator.settings import DetectionSettings

log = structlog.get_logger()
EVERY_S = 300.0
SOON_S = 60.0
"""After a group is new: however many come and go, all are asked for at most once in this time."""


class BrokerValues:
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
        self._properties = properties
        self._section = section
        self._settings = settings
        self._every_s, self._soon_s = every_s, soon_s
        self._new: DetectionSettings | None = None
        self._hurry, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="rebalance-monitor-values", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Not waited for: a request under way ends by its own time limit, and the thread is a daemon.
        self._stop.set()

    def hurry(self) -> None:
        """Ask soon: a group is new, and may have a session timeout of its own."""
        self._hurry.set()

    def take(self) -> DetectionSettings | None:
        """Return the settings if they have changed since the last call, else None."""
        new, self._new = self._new, None
        return new

    def _run(self) -> None:
        asked = time.monotonic()
        while not self._stop.wait(self._soon_s):
            if time.monotonic() - asked < self._every_s and not self._hurry.is_set():
                continue
            self._hurry.clear()
            asked = time.monotonic()
            try:
                with ClusterAdmin(self._properties) as admin:
                    found = told_again(self._settings, self._section, admin)
            except Exception as error:  # noqa: BLE001 - a client's bug must not end the watching
                why = str(error) if isinstance(error, DependencyError) else f"{type(error).__name__}: {error}"
                log.warning("the brokers could not be asked for their values", why=why)
                continue
            if found != self._settings:
                log.info("the brokers' values have changed: the query begins again")
                self._settings = self._new = found
