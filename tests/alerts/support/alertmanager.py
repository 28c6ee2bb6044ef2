"""A real Alertmanager on loopback, and the webhook that notes what it tells, when and to whom."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from rebalance_monitor.lab.cluster.node import free_ports
from tests.alerts.support.fakes import Answer, Call, Fake
from tests.programs import installed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = "prometheus-alertmanager"
Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class Told:
    """One notification; `at` in seconds of the timeline. Alerts as sorted label pairs."""

    at: float
    receiver: str
    group: tuple[tuple[str, str], ...]
    firing: frozenset[tuple[tuple[str, str], ...]]
    resolved: frozenset[tuple[tuple[str, str], ...]]


class Receiver(Fake):
    """Notes every notification with the time (s since epoch) at which it came."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[float, dict[str, Any]]] = []

    def handle(self, call: Call) -> Answer:
        """Note one notification."""
        self.noted.append((time.time(), json.loads(call.body)))
        return Answer(200)

    def told(self, start: float) -> list[Told]:
        """Return what came, in seconds since `start`."""
        return [_told(at - start, body) for at, body in self.noted]


@dataclass(slots=True)
class Alertmanager:
    """A running one. `started` (s since epoch) is when its dispatcher began."""

    url: str
    receiver: Receiver
    started: float
    client: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=5, trust_env=False))

    def post(self, labels: Labels, starts_at: float, ends_at: float | None) -> None:
        """Send one alert, firing or over; times in s since epoch."""
        alert: dict[str, Any] = {"labels": labels, "startsAt": _iso(starts_at)}
        if ends_at is not None:
            alert["endsAt"] = _iso(ends_at)
        self.client.post(f"{self.url}/api/v2/alerts", json=[alert]).raise_for_status()


@contextmanager
def running(config: dict[str, Any], quiet: frozenset[str], folder: Path) -> Iterator[Alertmanager]:
    """Run one with our configuration's own `route`, `inhibit_rules` and `time_intervals`."""
    with Receiver() as receiver:
        hook = f"{receiver.url}/told"
        receivers = [
            {
                "name": entry["name"],
                "webhook_configs": [{"url": hook, "send_resolved": entry["name"] not in quiet}],
            }
            for entry in config["receivers"]
        ]
        path = folder / "alertmanager.yml"
        path.write_text(yaml.safe_dump({**config, "receivers": receivers}))
        port = free_ports(1)[0]
        command = [
            installed(PROGRAM),
            f"--config.file={path}",
            f"--storage.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            manager = Alertmanager(f"http://127.0.0.1:{port}", receiver, time.time())
            _await(manager, process, folder)
            status = manager.client.get(f"{manager.url}/api/v2/status").json()
            manager.started = datetime.fromisoformat(status["uptime"]).timestamp()
            yield manager
        finally:
            manager.client.close()
            process.terminate()
            process.wait(60)


def _await(manager: Alertmanager, process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            if manager.client.get(f"{manager.url}/-/ready").status_code == httpx.codes.OK:
                return
        except httpx.HTTPError:
            pass
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"{PROGRAM} did not start: {(folder / 'log').read_text()[-2000:]}")
        time.sleep(0.05)


def _told(at: float, body: dict[str, Any]) -> Told:
    alerts = [(alert["status"], tuple(sorted(alert["labels"].items()))) for alert in body["alerts"]]
    return Told(
        at,
        body["receiver"],
        tuple(sorted(body["groupLabels"].items())),
        frozenset(labels for status, labels in alerts if status == "firing"),
        frozenset(labels for status, labels in alerts if status == "resolved"),
    )


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
