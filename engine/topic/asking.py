"""A thread that asks the brokers something again and again while a query runs."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

import structlog

from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Mapping

log = structlog.get_logger()


class Asking(ABC):
    """Asks with a client of its own every `every_s` seconds, where it is due; a context manager.

    `about` names the thread and what is asked for. Brokers that cannot be asked are asked again.
    """

    def __init__(self, properties: Mapping[str, str], about: str, every_s: float) -> None:
        self._properties, self._about, self._every_s = properties, about, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"rebalance-monitor-{about}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Not waited for: a request under way ends by its own time limit, and the thread is a daemon.
        self._stop.set()

    def _is_due(self) -> bool:
        return True

    @abstractmethod
    def _ask(self, admin: ClusterAdmin) -> None:
        """Ask, and keep the answer."""

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            if not self._is_due():
                continue
            try:
                with ClusterAdmin(self._properties) as admin:
                    self._ask(admin)
            except Exception as error:  # noqa: BLE001 - a client's bug must not end the asking
                why = str(error) if isinstance(error, DependencyError) else f"{type(error).__name__}: {error}"
                log.warning("the brokers could not be asked", about=self._about, why=why)
