import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from rebalance_monitor.cluster.clients.admin import ClusterAdmin
from rebalance_monitor.cluster.clients.reader import Reading, read_records
from rebalance_monitor.lab.cluster.broker import LabBroker
from rebalance_monitor.lab.cluster.node import wait_until
from rebalance_monitor.lab.scenario.faults import VERBS
from rebalance_monitor.lab.scenario.group_run import hosts_of
from rebalance_monitor.lab.scenario.model import Step
from rebalance_monitor.lab.scenario.runner import Run, Together
from rebalance_monitor.lab.scenario.scenario import parse
from rebalance_monitor.lab.scenario.traffic import Traffic
from rebalance_monitor.lab.truth.truth import Truth, parse_log
from rebalance_monitor.lab.workers import toolchains
from rebalance_monitor.lab.workers.families import FAMILIES, why_not, why_not_built
from rebalance_monitor.lab.workers.flags import Flags
from rebalance_monitor.lab.workers.toolchains import why_no_hosts

BUILT = ("sarama", "franz-go", "kafka-go", "kafkajs")
WAYS = ("auto", "manual", "record", "timer")
WORK = " processing-s=0.0"


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


def test_workers_of_other_languages_are_given_what_python_works_out_for_a_herd() -> None:
    herd = Flags("x:1", "g", "t", groups=3, timings="10000/3000/5000/60000/auto,30000/5000/1000/90000/timer")
    words = herd.spelled_out()
    each = words[words.index("--each") + 1].split(";")
    assert each == [
        f"group=g.000 session-ms=10000 poll-ms=60000 heartbeat-ms=3000 commit-ms=5000 commit=auto{WORK}",
        f"group=g.001 session-ms=30000 poll-ms=90000 heartbeat-ms=5000 commit-ms=1000 commit=timer{WORK}",
        f"group=g.002 session-ms=10000 poll-ms=60000 heartbeat-ms=3000 commit-ms=5000 commit=auto{WORK}",
    ]
    assert [(one.group, one.session_ms, one.commit) for one in herd.each()] == [
        ("g.000", 10_000, "auto"),
        ("g.001", 30_000, "timer"),
        ("g.002", 10_000, "auto"),
    ]
    alone = Flags("x:1", "g", "t")
    assert alone.spelled_out() == alone.arguments()


# How long a family may take until all its members have partitions, and until one has gone.
SETTLED_S = 120
GONE_S = 60


@pytest.fixture(scope="module")
def played(lab_broker: LabBroker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every built family that can run here, at once: a herd each; one member is killed, one closed."""
    folder = tmp_path_factory.mktemp("built")
    raw = {
        "members": "a b c",
        "topics": {"orders": 6},
        "hosts": True,
        "settings": {
            "groups": len(WAYS),
            "timings": ",".join(f"12000/1000/1000/20000/{way}" for way in WAYS),
        },
        "steps": [{"at": 0, "start": "all"}],
        "end": SETTLED_S + 2 * GONE_S + 60,
    }
    able = [name for name in BUILT if why_not(FAMILIES[name], (4, 1, 1)) is None]
    for name in able:
        assert why_not_built(FAMILIES[name]) is None
    with Traffic(lab_broker.bootstrap) as traffic:
        runs = [
            Run(parse("built", raw), FAMILIES[name], lab_broker, traffic, folder, f"built.{name}")
            for name in able
        ]
        with Together(runs), ThreadPoolExecutor(len(runs) or 1) as pool:
            list(pool.map(_play, runs))
    return folder


def _play(run: Run) -> None:
    """Kill one member and close another; each step waits for the one before; the tests say what failed."""
    wait_until(lambda: _settled(run), SETTLED_S, every_s=1)
    VERBS["kill"](run, Step(0, "kill", ("b",)))
    wait_until(lambda: _gone(run, "b", "expired"), GONE_S, every_s=1)
    VERBS["close"](run, Step(0, "close", ("c",)))
    wait_until(lambda: _gone(run, "c", "left"), GONE_S, every_s=1)


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT)
def test_a_built_worker_joins_commits_in_every_way_expires_when_killed_and_leaves_when_closed(
    name: str, lab_broker: LabBroker, played: Path
) -> None:
    if reason := why_not(FAMILIES[name], (4, 1, 1)):
        pytest.skip(f"{name}: {reason}")
    events = _events(lab_broker, f"built.{name}.")
    journal = {who: _journal(played / f"built.{name}" / f"{who}.jsonl") for who in "abc"}
    groups = [f"built.{name}.{number:03d}" for number in range(len(WAYS))]
    for group in groups:
        own = [event for event in events if event.group == group]
        killed, closed = (_members(journal[who], group) for who in "bc")
        assert killed, (group, journal["b"][-20:])
        assert closed, (group, journal["c"][-20:])
        assert _ids(own, "expired") >= killed, (group, own)
        assert _ids(own, "left") >= closed, (group, own)
    # One that meets a rebalance is refused for its generation; any other reason is the worker's fault.
    refused = [one["error"] for one in journal["a"] if one["event"] == "commit_refused"]
    assert [error for error in refused if "generation" not in error.lower()] == []
    assert [one["event"] for one in journal["a"]][-1] == "closed"
    assert _committed(lab_broker, groups)


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT)
def test_the_broker_sees_each_pod_at_a_host_of_its_own(
    name: str, lab_broker: LabBroker, played: Path
) -> None:
    if reason := why_not(FAMILIES[name], (4, 1, 1)) or why_no_hosts():
        pytest.skip(f"{name}: {reason}")
    assert (played / f"built.{name}").is_dir()
    properties = {"bootstrap.servers": lab_broker.bootstrap}
    with ClusterAdmin(properties) as admin:
        until = admin.end_offsets()
        reading = Reading(start=admin.begin_offsets(), until=until)
    hosts = set(islice(hosts_of(f"built.{name}"), 3))
    batches = read_records(properties, reading)
    values = b"".join(value or b"" for one in batches for value in one.column("value").to_pylist())
    assert {host for host in hosts if f"/{host}".encode() in values} == hosts


def _settled(run: Run) -> bool:
    """Return whether every member has partitions in every group, and no group rebalanced in the last 5 s."""
    paths = [run.folder / f"{who}.jsonl" for who in "abc"]
    if not all(path.exists() for path in paths):
        return False
    journals = [_journal(path) for path in paths]
    joined = all(_members(journal, group) for journal in journals for group in run.groups)
    assigned = [one["at"] for own in journals for one in own if one["event"] == "assigned"]
    return joined and time.time() * 1000 - max(assigned) > 5_000


def _gone(run: Run, who: str, what: str) -> bool:
    gone = _ids(_events(run.broker, run.group), what)
    journal = _journal(run.folder / f"{who}.jsonl")
    return all(_members(journal, group) <= gone for group in run.groups)


def _events(broker: LabBroker, group: str) -> list[Truth]:
    lines = broker.coordinator_logs[0].read_text().splitlines()
    return [event for event in parse_log(lines) if event.group.startswith(group)]


def _journal(path: Path) -> list[dict[str, Any]]:
    """Read the whole lines of a journal that may be written meanwhile."""
    text = path.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


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
