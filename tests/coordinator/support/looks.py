"""Hand-written looks of the probe at one group, with what summaries, listings and records say beside them."""

from dataclasses import replace

from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.probe.sample import ProbeSample, RebalancingGroup
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.support.timeline import T0, Client, Topic, findings

SETTINGS = DetectionSettings()
SEEN = (RebalancingGroup("g", "PreparingRebalance", "classic", "consumer"),)


def look(at: int, *, seen: bool, epoch: int = 1, answered: bool = True) -> ProbeSample:
    return ProbeSample(T0 + at, SEEN if seen else (), ((7, 1, epoch),), ((1, answered),))


def kinds(found: list[Finding]) -> list[tuple[Kind, str | None]]:
    return [(finding.kind, finding.phase) for finding in found]


def _recorded(phase: str, number: int) -> Finding:
    topic = Topic()
    topic.generation(0, 1, [Client("a-1", (0,))])
    return replace(
        findings(topic)[0], id=f"r{number}", kind=Kind.STORM, phase=phase, incident="r1", at=T0 + 130_000
    )


SUMMARY = {
    "generation": 7,
    "state": "Stable",
    "at": T0,
    "as_of": T0 + 40_000,
    "protocol": "range",
    "member_list": [
        {
            "member_id": m,
            "client_id": f"consumer-{m}",
            "host": "/h",
            "instance_id": None,
            "last_commit": T0 + at,
            "cadence_ms": -1,
            "family": "java",
            "commits_idle": True,
        }
        for m, at in (("slow", 1_000), ("fast", 8_000), ("quick", 9_000), ("gone", 500))
    ],
}
LISTED = {"g": tuple((m, "", f"consumer-{m}", "/h") for m in ("slow", "fast", "quick", "new"))}
