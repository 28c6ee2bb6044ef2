import json
import shutil
from pathlib import Path

import pytest

from rebalance_monitor.lab import toolchains
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.scenario.runner import Run, Together
from rebalance_monitor.lab.scenario.scenario import parse
from rebalance_monitor.lab.scenario.traffic import Traffic
from rebalance_monitor.lab.truth.truth import Truth, parse_log
from rebalance_monitor.lab.workers.families import FAMILIES, why_not
from rebalance_monitor.lab.workers.flags import Flags

BUILT = ("sarama", "franz-go", "kafka-go", "kafkajs")
WAYS = ("auto", "manual", "record", "timer")


@pytest.mark.parametrize("name", BUILT)
def test_a_family_without_its_toolchain_is_skipped_by_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert "is not on the PATH" in (why_not(FAMILIES[name], (4, 1, 1)) or "")


def test_a_toolchain_that_is_too_old_is_named_with_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: f"/bin/{tool}")
    monkeypatch.setattr(toolchains, "_run", lambda *_: "go version go1.19.8 linux/amd64\n")
    assert "go 1.23 or later is needed" in (toolchains.why_no_go() or "")
    monkeypatch.setattr(toolchains, "_run", lambda *_: "go version go1.26 linux/amd64\n")
    assert toolchains.why_no_go() is None


def test_no_file_of_the_workers_names_a_registry() -> None:
    for path in (toolchains.WORKERS / "node").iterdir():
        assert "://" not in path.read_text()
    lock = json.loads((toolchains.WORKERS / "node" / "package-lock.json").read_text())
    packages = [one for name, one in lock["packages"].items() if name]
    assert packages
    assert all("integrity" in one and "resolved" not in one for one in packages)


def test_workers_of_other_languages_are_told_what_python_works_out_for_a_herd() -> None:
    herd = Flags("x:1", "g", "t", groups=3, timings="10000/3000/5000/60000/auto,30000/5000/1000/90000/timer")
    words = herd.spelled_out()
    each = words[words.index("--each") + 1].split(";")
    assert each == [
        "group=g.000 session-ms=10000 poll-ms=60000 heartbeat-ms=3000 commit-ms=5000 commit=auto",
        "group=g.001 session-ms=30000 poll-ms=90000 heartbeat-ms=5000 commit-ms=1000 commit=timer",
        "group=g.002 session-ms=10000 poll-ms=60000 heartbeat-ms=3000 commit-ms=5000 commit=auto",
    ]
    assert [(one.group, one.session_ms, one.commit) for one in herd.each()] == [
        ("g.000", 10_000, "auto"),
        ("g.001", 30_000, "timer"),
        ("g.002", 10_000, "auto"),
    ]
    alone = Flags("x:1", "g", "t")
    assert alone.spelled_out() == alone.arguments()


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT)
def test_a_built_worker_joins_commits_in_every_way_expires_when_killed_and_leaves_when_closed(
    name: str, lab_broker: LabBroker, tmp_path: Path
) -> None:
    if reason := why_not(FAMILIES[name], (4, 1, 1)):
        pytest.skip(f"{name}: {reason}")
    group = f"built.{name}"
    timings = ",".join(f"6000/1000/1000/8000/{way}" for way in WAYS)
    raw = {
        "members": "a b c",
        "topics": {"orders": 6},
        "settings": {"groups": len(WAYS), "timings": timings},
        "steps": [{"at": 0, "start": "all"}, {"at": 12, "kill": "b"}, {"at": 22, "close": "c"}],
        "end": 30,
    }
    with Traffic(lab_broker.bootstrap) as traffic:
        run = Run(parse("built", raw), FAMILIES[name], lab_broker, traffic, tmp_path, group)
        with Together([run]) as together:
            assert together.wait(300)
    events = _events(lab_broker, group)
    journal = {who: _journal(tmp_path / group / f"{who}.jsonl") for who in "abc"}
    for number in range(len(WAYS)):
        own = [event for event in events if event.group == f"{group}.{number:03d}"]
        assert _ids(own, "expired") == _members(journal["b"], f"{group}.{number:03d}"), (number, own)
        assert _ids(own, "left") >= _members(journal["c"], f"{group}.{number:03d}"), (number, own)
    assert [one["event"] for one in journal["a"] if one["event"] in {"error", "commit_refused"}] == []
    assert [one["event"] for one in journal["a"]][-1] == "closed"
    assert _committed(lab_broker, [f"{group}.{number:03d}" for number in range(len(WAYS))])


def _events(broker: LabBroker, group: str) -> list[Truth]:
    lines = broker.coordinator_logs[0].read_text().splitlines()
    return [event for event in parse_log(lines) if event.group.startswith(group)]


def _journal(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _ids(events: list[Truth], what: str) -> set[str]:
    return {member for event in events if event.what == what for member in event.members}


def _members(journal: list[dict[str, object]], group: str) -> set[str]:
    own = [one for one in journal if one.get("group") == group and one["event"] == "assigned"]
    return {str(one["member"]) for one in own[-1:]}


def _committed(broker: LabBroker, groups: list[str]) -> bool:
    from confluent_kafka import ConsumerGroupTopicPartitions
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for group in groups:
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        parts = asked[group].result(timeout=20).topic_partitions
        assert len(parts) == 6, (group, parts)
    return True
