"""One group with its topic, looked at every five seconds: what tests of lag act on."""

import json
from dataclasses import dataclass, field
from typing import Any

from rebalance_monitor.coordinator.commits import positions
from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kind_table import KINDS
from rebalance_monitor.coordinator.findings.kinds import Kind, Scope
from rebalance_monitor.coordinator.lag.ends import EndsSample
from rebalance_monitor.coordinator.lag.following import Lag
from rebalance_monitor.coordinator.settings import DetectionSettings
from rebalance_monitor.coordinator.state.positions import Positions
from rebalance_monitor.decoders.rows import partition_entry

T0, STEP = 1_795_000_000_000, 5_000
SETTINGS = DetectionSettings()


def summary(state: str = "Stable", *, members: int = 2) -> dict[str, Any]:
    """Two members with two partitions each."""
    return {
        "state": state,
        "group_type": "classic",
        "members": members,
        "member_list": [
            {
                "member_id": f"m{number}",
                "client_id": f"c{number}",
                "host": "/10.0.0.1",
                "instance_id": None,
                "session_timeout_ms": 45_000,
                "rebalance_timeout_ms": 300_000,
                "partitions": 2,
                "last_commit": -1,
                "cadence_ms": 5_000,
                "assigned": {"orders": f"{2 * number}-{2 * number + 1}"},
            }
            for number in range(members)
        ],
    }


@dataclass
class World:
    """One group and its topic of four partitions, looked at every 5 s."""

    settings: DetectionSettings = SETTINGS
    lag: Lag = field(init=False)
    at: int = T0
    ends: list[int] = field(default_factory=lambda: [100] * 4)
    begins: list[int] = field(default_factory=lambda: [0] * 4)
    stable: tuple[int, ...] = ()
    shard: int = -1
    topic_id: str = ""
    held: Positions = field(default_factory=Positions)
    found: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lag = Lag(self.settings, "c1")

    def commit(self, offsets: dict[int, int]) -> None:
        for partition, offset in offsets.items():
            entry = partition_entry(b"orders", partition)
            positions.keep(self.held, self.at, entry, offset.to_bytes(8, "big", signed=True))

    def look(
        self,
        said: dict[str, Any] | None = None,
        *,
        rebalancing: bool = False,
        known: bool = True,
        anew: bool = False,
    ) -> list[Finding]:
        """Publish, take a sample, and return what is found; `anew`: in a process that begins."""
        self.at += STEP
        if anew:
            self.lag = Lag(self.settings, "c1", json.loads(json.dumps(self.lag.snapshot())))
        self.found += self.lag.publish({"g": positions.copied(self.held)}, self.at, {"g": self.shard})
        latest = {"orders": tuple(self.ends)} if known else {}
        begins = {"orders": tuple(self.begins)} if known else {}
        ids = {"orders": self.topic_id}
        sample = EndsSample(self.at - 10, self.at, latest, begins, ids, stable={"orders": self.stable})
        found = self.lag.on_samples([sample], {"g": said or summary()}, {"g"} if rebalancing else ())
        self.found += found
        return found

    def run(
        self,
        looks: int,
        *,
        reads: tuple[int, ...] = (0, 1, 2, 3),
        rate: int = 10,
        **how: Any,  # noqa: ANN401 - as `look` has them
    ) -> None:
        """Let records come to all partitions, read only from `reads`."""
        for _ in range(looks):
            self.ends = [end + rate for end in self.ends]
            self.commit({partition: self.ends[partition] for partition in reads})
            self.look(**how)

    def of(self, kind: Kind) -> list[Finding]:
        return [one for one in self.found if one.kind is kind]


def finding(
    kind: Kind,
    at: int,
    phase: str | None,
    **fields: Any,  # noqa: ANN401 - those of Finding
) -> Finding:
    base = {"details": {}, "evidence": "read", "cluster": "c1", "incident": "i" if phase else None}
    return Finding(
        id=f"{kind}/{phase}", kind=kind, scope=Scope.GROUP, severity=KINDS[kind].severity, group="g", at=at,
        phase=phase, **{**base, **fields},
    )  # fmt: skip
