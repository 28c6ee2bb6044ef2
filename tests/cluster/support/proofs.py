"""What shows that a login works for a client of the monitor: one function for each."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

from rebalance_monitor.cluster.captures.capture import read_capture
from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.ends.ends import EndsThread
from rebalance_monitor.cluster.probe.probe import ProbeThread
from rebalance_monitor.lab.cluster.node import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from rebalance_monitor.coordinator.lag.ends import EndsSample
    from rebalance_monitor.coordinator.probe.sample import ProbeSample

PATIENCE_S = 180.0


def require_watch(command: Sequence[str], folder: Path) -> str:
    """Run `watch` until it follows the topic, as it says; return all that it said."""
    said = folder / "said"
    with said.open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            follows = wait_until(lambda: " partitions, " in said.read_text(), PATIENCE_S)
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_S)
        finally:
            process.kill()
    assert follows, said.read_text()
    return said.read_text()


def require_capture(command: Sequence[str], copy: Path) -> int:
    """Run `capture`; return how many records it copied."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return read_capture(copy).rows


def require_probe_and_ends(properties: Mapping[str, str], topic: str) -> None:
    """Have the probe and the ends answer, and nothing of it fail."""
    looks: list[ProbeSample] = []
    samples: list[EndsSample] = []

    def both() -> bool:
        looks.extend(probe.drain())
        samples.extend(ends.drain())
        return bool(looks and any(topic in sample.latest for sample in samples))

    of_topic: Callable[[], set[str]] = lambda: {topic}  # noqa: E731 - the thread asks for them
    with ProbeThread(properties, 0.5) as probe, EndsThread(properties, of_topic, 0.5) as ends:
        assert wait_until(both, PATIENCE_S)
    assert [look.failures for look in looks if look.failures] == []
    assert [sample.partial for sample in samples if sample.partial] == []


def records_of_topic(properties: Mapping[str, str]) -> int:
    """Return how many records there are, by the brokers."""
    with ClusterAdmin(properties) as admin:
        return sum(admin.end_offsets().values())
