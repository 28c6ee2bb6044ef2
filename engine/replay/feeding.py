"""A replay as the dashboard sees it: each batch of a capture goes into a snapshot, as fast as asked for."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from rebalance_monitor.dashboard.view.snapshot import Update
from rebalance_monitor.engine.outputs.identities import SHOWN, Identities
from rebalance_monitor.engine.replay.replaying import replay_capture

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.coordinator.settings import DetectionSettings
    from rebalance_monitor.dashboard.view.snapshot import Snapshot
    from rebalance_monitor.engine.batch.batches import Batch


class Feed:
    """Applies a replay's batches to `snapshot`.

    `pace`: seconds of record time per second, 0 for as fast as possible. `stop` is asked before each batch.
    `identities`: how members are named there.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        pace: float = 0.0,
        stop: Callable[[], bool] | None = None,
        identities: Identities = SHOWN,
    ) -> None:
        self._snapshot = snapshot
        self._pace = pace
        self._stop = stop or (lambda: False)
        self._identities = identities
        self._batch = 0
        self._began: tuple[float, int] | None = None

    def run(self, path: Path, settings: DetectionSettings, until: int | None = None) -> int:
        """Replay the capture at `path`, up to `until` (ms); return the number of findings."""
        findings = 0
        for _ in replay_capture(path, settings, watch=self._take):
            findings += 1
            if self._stop() or (until is not None and self._snapshot.known.health.now >= until):
                break
        return findings

    def _take(self, now: int, batch: Batch, findings: list[Finding]) -> None:
        self._wait(now)
        update = update_of(batch, findings, self._batch)
        findings = [self._identities.finding(finding) for finding in update.findings]
        groups = {name: self._identities.summary(group) for name, group in update.groups.items()}
        self._snapshot.apply(replace(update, findings=findings, groups=groups))
        self._batch += 1

    def _wait(self, now: int) -> None:
        if self._pace <= 0:
            return
        self._began = began = self._began or (time.monotonic(), now)
        due = began[0] + (now - began[1]) / 1000 / self._pace
        while not self._stop() and (left := due - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))


def update_of(batch: Batch, findings: Sequence[Finding], number: int) -> Update:
    """Return what the snapshot takes of one batch of a replay."""
    stats = [stat.data for _, stat in batch.stats if stat.kind == "shard"]
    return Update(
        findings=findings,
        groups={**batch.commits_only, **batch.groups},
        removed=[*batch.removed, *batch.forgotten],
        shards=stats,
        now=batch.now,
        wall=batch.now,
        batch=number,
        rows=sum(int(stat["rows"]) for stat in stats),
        committing=batch.committing,
        lags=batch.lags,
    )
