"""A dispatcher with its thread, files and real clock, and the sink that remembers what it was sent."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rebalance_monitor.alerts.messages.notification import Sent
from rebalance_monitor.alerts.runtime.dispatcher import Dispatcher, wall_ms
from rebalance_monitor.alerts.setup.receivers import plan_of
from rebalance_monitor.config.model import Settings
from rebalance_monitor.coordinator.findings.kinds import Kind
from tests.alerts.support.findings import finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rebalance_monitor.alerts.messages.notification import Notification
    from rebalance_monitor.coordinator.findings.finding import Finding

SLACK = {"token": "xoxb-none", "channel": "C0123ABCD", "per_minute": 6_000}
SECTION: dict[str, Any] = {
    "receivers": [{"name": "sre", "slack": SLACK}],
    "route": {"receiver": "sre", "group_wait": "50ms", "group_interval": "100ms"},
}


class Memo:
    """A sink that remembers; `answers` come first. `hangs` makes every call wait for it."""

    name, kind, resend_ms = "sre/slack", "slack", None

    def __init__(self) -> None:
        self.told: list[Notification] = []
        self.answers: deque[Exception] = deque()
        self.asked = threading.Event()
        self.hangs = threading.Event()
        self.hangs.set()

    def send(self, notification: Notification, now_ms: int) -> Sent:
        assert now_ms > 0
        self.asked.set()
        self.hangs.wait(60)
        if self.answers:
            raise self.answers.popleft()
        self.told.append(notification)
        return Sent({"seen": notification.key})

    def close(self) -> None:
        self.told.append  # noqa: B018 - nothing to let go

    def phases(self) -> list[str]:
        return [told.phase.value for told in self.told]


@contextmanager
def dispatching(folder: Path, sink: Memo, committed: dict[str, int] | None = None) -> Iterator[Dispatcher]:
    plan = partial(plan_of, Settings(alerts=SECTION), "prod")
    with Dispatcher(folder, plan, {"sre/slack": sink}) as dispatcher:
        dispatcher.open(committed or {})
        yield dispatcher


def storm(phase: str, group: str = "orders") -> Finding:
    now = wall_ms()
    made = finding(Kind.STORM, phase=phase, incident=f"i-{group}", group=group, at=now, detected_at=now)
    return replace(made, id=f"{phase}-{group}")


def eventually(holds: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not holds():
        time.sleep(0.01)
    return holds()
