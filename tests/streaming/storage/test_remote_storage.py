"""A whole job whose folder is a URI: killed, started again, asked by every verb that reads it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import yaml

pytest.importorskip("pyspark")

from rebalance_monitor.checkpoints.ledger import Ledger
from rebalance_monitor.checkpoints.state.manifest import read_manifest
from rebalance_monitor.checkpoints.storage.hadoop_jvm import use_jvm
from rebalance_monitor.checkpoints.storage.lines import read_lines
from rebalance_monitor.coordinator.findings.finding import Finding, from_json
from rebalance_monitor.dashboard.tables.findings_table import read_newest
from rebalance_monitor.engine.storage import Storage, storage_at
from rebalance_monitor.lab.cluster.node import wait_until
from tests.alerts.support.slack_fake import CHANNEL, TOKEN, SlackFake
from tests.checkpoints.stores import below
from tests.streaming.test_end_to_end import PATIENCE_S, Members

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rebalance_monitor.lab.cluster.broker import LabBroker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.broker,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
MAIN = "from rebalance_monitor.cli.main import main; main()"


@dataclass(frozen=True)
class Kept:
    """A job's folder on some store, and where Spark's own checkpoint lies: "" for in it."""

    path: str
    checkpoint: str = ""

    @property
    def name(self) -> str:
        return self.path.partition(":")[0]


@pytest.fixture(params=["s3", "hdfs"])
def kept(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    if request.param == "s3":
        # Spark's S3 client is half a gigabyte of jars.
        yield Kept(below(request.getfixturevalue("s3"), "job"), (tmp_path / "state").as_uri())
        return
    store = request.getfixturevalue("hdfs_store")
    # The jobs and verbs, and this process.
    monkeypatch.setenv("HADOOP_USER_NAME", "sre")
    use_jvm(lambda _: store.jvm)
    yield Kept(f"{store.uri}/job")
    use_jvm(lambda _: None)


def settings(bootstrap: str, path: str, checkpoint: str, slack: str) -> dict[str, object]:
    route = {"receiver": "sre", "group_wait": "0s", "group_interval": "1s"}
    options = {"token": TOKEN, "channel": CHANNEL, "api_url": slack, "per_minute": 10_000}
    return {
        "kafka": {"bootstrap_servers": bootstrap},
        "spark": {"spark.master": "local[2]", "spark.driver.memory": "1g"},
        "storage": {"path": path, "checkpoint": checkpoint},
        "outputs": {"console": False},
        "tables": {"groups_interval": "2s"},
        "web": {"enabled": False},
        "alerts": {"receivers": [{"name": "sre", "slack": options}], "route": route},
    }


@contextmanager
def job(config: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (config.parent / "monitor.log").open("ab") as log:
        command = [sys.executable, "-c", MAIN, "run", "--config", str(config)]
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def told(storage: Storage, group: str) -> list[Finding]:
    findings = [from_json(line) for line in read_lines(storage.jsonl)]
    return [finding for finding in findings if finding.group == group]


def batches(storage: Storage) -> int:
    return sum(Ledger(storage.ledger).load().batches.values())


def verb(config: Path, *words: str) -> tuple[int, str]:
    command = [sys.executable, "-c", MAIN, *words, "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_job_on_a_uri_publishes_each_finding_once_and_goes_on_after_a_kill(
    lab_broker: LabBroker, tmp_path: Path, kept: Kept
) -> None:
    group = f"remote-{kept.name}"
    path, checkpoint = kept.path, kept.checkpoint
    storage = storage_at(path, checkpoint)
    config = tmp_path / "monitor.yaml"
    with ExitStack() as stack:
        slack = stack.enter_context(SlackFake())
        config.write_text(yaml.safe_dump(settings(lab_broker.bootstrap, path, checkpoint, slack.api)))
        members = Members(lab_broker.bootstrap, group, tmp_path / "workers", stack)
        with job(config) as process:
            assert wait_until(lambda: batches(storage) > 0, PATIENCE_S)
            members.start("stays")
            victim = members.start("dies")
            assert wait_until(lambda: bool(told(storage, group)), PATIENCE_S)
            code, said = verb(config, "run")
            assert (code, "another monitor" in said) == (2, True), said
            members.await_commits()
            victim.send(signal.SIGKILL)
            assert wait_until(
                lambda: any(finding.kind == "session_timeout" for finding in told(storage, group)), PATIENCE_S
            )
            os.killpg(process.pid, signal.SIGKILL)
        before = batches(storage)
        assert verb(config, "alerts", "silence", "add", 'group="nobody"', "--for", "1h")[0] == 0
        with job(config) as process:
            assert wait_until(lambda: batches(storage) > before + 2, PATIENCE_S)
            assert wait_until(lambda: len(slack.parents()) > 0, PATIENCE_S)
            time.sleep(3)
            process.terminate()
            assert process.wait(PATIENCE_S) == 0
        ids = [from_json(line).id for line in read_lines(storage.jsonl)]
        assert len(ids) == len(set(ids)) > 0
        assert sorted(finding.id for finding in read_newest(storage.findings, 10_000)) == sorted(ids)
        timeouts = [text for text in (one.content["text"] for one in slack.parents()) if group in text]
        assert len(timeouts) == 1, timeouts
    manifest = read_manifest(storage.manifest)
    assert manifest is not None
    assert manifest.generation == 1
    assert not (storage.root / "owner.json").exists()
    code, said = verb(config, "checkpoint", "inspect", "-o", "jsonl")
    assert code == 0, said
    assert json.loads(said.splitlines()[0])["in use"] == "yes"
    assert json.loads(said.splitlines()[0])["read up to"] > 0
    code, said = verb(config, "history", group, "--tables", path, "-o", "jsonl")
    assert (code, "session_timeout" in said) == (0, True), said
    code, said = verb(config, "table", "optimize")
    assert code == 0, said
    assert verb(config, "alerts", "silence", "list")[1].count("nobody") == 1
    assert len(read_newest(storage.findings, 10_000)) == len(ids)
