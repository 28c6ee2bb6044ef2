"""What `explain` lists as what happened: each incident once, with what sums it up."""

from dataclasses import replace

from rebalance_monitor.alerts.gallery import examples
from rebalance_monitor.coordinator.explain.dossier import open_dossier
from rebalance_monitor.coordinator.explain.explanation import Place, explain
from rebalance_monitor.coordinator.findings.finding import Finding
from rebalance_monitor.coordinator.findings.kinds import Kind
from rebalance_monitor.coordinator.settings import DetectionSettings
from tests.coordinator.support.timeline import Client, Topic


def listed(*found: Finding) -> list[tuple[str, str | None]]:
    topic = Topic()
    topic.generation(0, 1, [Client("a-1", (0,))])
    dossier = open_dossier(topic.group, topic.shard, DetectionSettings(), "c1")
    dossier.on_rows(topic.rows)
    dossier.replace([replace(one, group=topic.group) for one in found])
    told = explain(dossier, Place(topic.shard, 50), DetectionSettings())["rebalances"]
    return [(one["kind"], one["about"]) for one in told]


def test_a_storm_and_a_standstill_are_listed_once_with_what_they_are_about() -> None:
    storm, over = examples.example(Kind.STORM), examples.example(Kind.STORM, "resolved")
    stopped = examples.example(Kind.CONSUMPTION_STOPPED)
    # It continues the incident of a silent member, so no finding of its kind opened that.
    later = replace(stopped, phase="updated")
    ended = examples.example(Kind.CONSUMPTION_STOPPED, "resolved")
    told = listed(storm, replace(storm, phase="updated"), over, later, replace(later, at=later.at + 1), ended)
    waited = f"{stopped.details['waiting']:,} records waited for orders-enricher-7"
    assert [kind for kind, _ in told] == ["consumption_stopped", "storm"]
    assert told[0][1] == waited
    assert "rebalances in" in (told[1][1] or "")


def test_a_silent_member_is_listed_while_it_is_silent() -> None:
    silent = examples.example(Kind.MEMBER_SILENT)
    assert listed(silent, replace(silent, phase="updated")) == [("member_silent", None)]
    for phase in ("resolved", "updated"):
        assert listed(silent, replace(silent, phase=phase, resolution="confirmed")) == []
