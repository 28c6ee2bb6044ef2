"""The whole path: a real broker, real clients with faults, the job as its users start it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
import yaml

pytest.importorskip("pyspark")

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rebalance_monitor.coordinator.findings.finding import Finding, from_json
from rebalance_monitor.dashboard.tables.files import files
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.lab.cluster.node import wait_until
from rebalance_monitor.lab.scenario.processes import WorkerProcess
from rebalance_monitor.lab.scenario.traffic import Traffic
from rebalance_monitor.lab.suite.job import Job
from rebalance_monitor.lab.workers.families import FAMILIES
from rebalance_monitor.lab.workers.flags import Flags
from tests.streaming.support.undisturbed import both, findings_of_topic, record_driven, require_by_samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rebalance_monitor.lab.cluster.broker import LabBroker

pytestmark = [
    pytest.mark.spark,
    pytest.mark.broker,
    pytest.mark.timeout(1_200),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
PATIENCE_S = 300.0
PARTITIONS = 4


class Members:
    """Consumers of one group on a topic of its own, with traffic."""

    def __init__(self, bootstrap: str, group: str, folder: Path, stack: ExitStack) -> None:
        self.bootstrap, self.group, self.folder, self.stack = bootstrap, group, folder, stack
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.create_topics([NewTopic(group, PARTITIONS, 1)]).values():
            future.result()
        stack.enter_context(Traffic(bootstrap)).add(group, PARTITIONS)

    def start(self, member: str) -> WorkerProcess:
        """Start one confluent-kafka consumer whose client id is its name."""
        flags = Flags(self.bootstrap, self.group, self.group, client_id=member)
        worker = WorkerProcess(member, FAMILIES["confluent"], flags, self.folder)
        self.stack.callback(worker.finish)
        return worker

    def await_commits(self) -> None:
        """Wait until each partition has a committed offset: each member commits. Go on for a while."""
        places = [TopicPartition(self.group, number) for number in range(PARTITIONS)]
        with closing(Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group})) as reader:
            assert wait_until(
                lambda: all(one.offset >= 0 for one in reader.committed(places, 30)), PATIENCE_S, 0.5
            )
        time.sleep(3)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def told(job: Job) -> list[Finding]:
    """Every finding in the job's file; a line that is being written is left out."""
    path = Storage(job.storage).jsonl
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [from_json(line) for line in lines if line.endswith("\n")]


def await_finding(job: Job, fits: Callable[[Finding], bool]) -> Finding:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        job.require()
        if found := [finding for finding in told(job) if fits(finding)]:
            return found[0]
        time.sleep(0.3)
    raise AssertionError([f"{finding.group} {finding.kind} {finding.generation}" for finding in told(job)])


def joined(finding: Finding) -> set[str]:
    return {member.client_id for member in finding.members if member.role == "joined"}


def test_a_killed_member_is_named_and_a_second_start_goes_on(
    lab_broker: LabBroker, tmp_path: Path, stack: ExitStack
) -> None:
    group = "end-to-end"
    job = Job(lab_broker.bootstrap, tmp_path / "job")
    members = Members(lab_broker.bootstrap, group, tmp_path / "workers", stack)
    with job:
        job.wait_ready()
        members.start("stays")
        victim = members.start("dies")
        await_finding(job, lambda f: f.group == group and f.kind == "rebalance" and f.members_total == 2)
        members.await_commits()
        victim.send(signal.SIGKILL)
        found = await_finding(job, lambda f: f.group == group and f.kind == "session_timeout")
        assert found.causes[0].client_id == "dies"
        job._process.terminate()
        assert job._process.wait(PATIENCE_S) == 0
    members.start("comes")
    time.sleep(5)
    with job:
        await_finding(job, lambda f: f.group == group and joined(f) == {"comes"})
        job._process.send_signal(signal.SIGINT)
        assert job._process.wait(PATIENCE_S) == 0
    found_ids = [finding.id for finding in told(job)]
    assert len(set(found_ids)) == len(found_ids)
    alone = findings_of_topic(lab_broker.bootstrap)
    ours, expected = both(told(job), alone, {group})
    assert set(ours) == {entry for entry in expected if entry[2] in set(found_ids)}
    require_by_samples(told(job), alone)
    table = files(Storage(job.storage).findings)
    assert sorted(i for path in table for i in pq.ParquetFile(path).read(["id"])["id"].to_pylist()) == sorted(
        found_ids
    )


def run_verb(folder: Path, settings: dict[str, object], *flags: str) -> subprocess.CompletedProcess[str]:
    """`rebalance-monitor run` with these settings, until it ends by itself."""
    folder.mkdir(parents=True, exist_ok=True)
    (config := folder / "config.yaml").write_text(yaml.safe_dump(settings))
    main = "from rebalance_monitor.cli.main import main; main()"
    command = [sys.executable, "-c", main, "run", "--config", str(config), *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def some_group(lab_broker: LabBroker, tmp_path: Path, stack: ExitStack, group: str) -> None:
    """Leave records of a group in the topic, a generation among them."""
    members = Members(lab_broker.bootstrap, group, tmp_path / "workers", stack)
    members.start("one")
    assert wait_until(
        lambda: bool(record_driven(findings_of_topic(lab_broker.bootstrap), {group})), PATIENCE_S, 1.0
    )


def steady(found: list[Finding]) -> list[Finding]:
    """All but that the job fell behind: on a starved machine it does, and says so."""
    return [finding for finding in found if finding.details.get("cause") != "behind"]


def test_a_source_that_delivers_nothing_stops_the_job(
    lab_broker: LabBroker, tmp_path: Path, stack: ExitStack
) -> None:
    some_group(lab_broker, tmp_path, stack, "blind")
    settings = {
        "kafka": {"bootstrap_servers": lab_broker.bootstrap},
        "storage": {"path": str(tmp_path / "data")},
        "spark": {"spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "false"},
    }
    done = run_verb(tmp_path, settings)
    assert done.returncode == 3
    assert "would be blind" in done.stderr
    assert "useDeprecatedOffsetFetching" in done.stderr
    lines = (tmp_path / "data" / "findings.jsonl").read_text().splitlines()
    said = [f for f in steady(list(map(from_json, lines))) if f.kind == "monitor_degraded"]
    assert [(f.details["cause"], f.phase, f.severity.value) for f in said] == [
        ("blind", "opened", "critical")
    ]


def test_backfill_ends_by_itself_and_a_rebuild_publishes_nothing_twice(
    lab_broker: LabBroker, tmp_path: Path, stack: ExitStack
) -> None:
    group = "backfill"
    some_group(lab_broker, tmp_path, stack, group)
    settings: dict[str, object] = {
        "kafka": {"bootstrap_servers": lab_broker.bootstrap},
        "storage": {"path": str(tmp_path / "data")},
        "probe": {"enabled": False},
    }
    done = run_verb(tmp_path, settings, "--available-now", "-o", "jsonl")
    assert done.returncode == 0
    # Nothing of history is printed; of the broker's other groups something may happen meanwhile.
    assert not [found for found in map(from_json, done.stdout.splitlines()) if found.group == group]
    lines = (tmp_path / "data" / "findings.jsonl").read_text().splitlines()
    history = [from_json(line) for line in lines]
    assert all(finding.history for finding in history if finding.group == group)
    expected = record_driven(findings_of_topic(lab_broker.bootstrap), {group})
    assert set(record_driven(history, {group})) <= set(expected)
    assert record_driven(history, {group})
    done = run_verb(tmp_path, settings, "--available-now", "--rebuild-state")
    assert done.returncode == 0
    assert (tmp_path / "data" / "state" / "2").is_dir()
    found = [from_json(line) for line in (tmp_path / "data" / "findings.jsonl").read_text().splitlines()]
    assert [f.details["cause"] for f in steady(found) if f.kind == "monitor_degraded"] == ["state_rebuilt"]
    ids = [finding.id for finding in found]
    assert len(set(ids)) == len(ids)
    assert found[: len(history)] == history
    done = run_verb(tmp_path, {**settings, "buckets": 4}, "--available-now")
    assert done.returncode == 2
    assert "--rebuild-state" in done.stderr
