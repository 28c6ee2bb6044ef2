"""The job runs no module of the current folder, and its scratch files are open to nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rebalance_monitor.lab.workers.families import FAMILIES, Family, command
from rebalance_monitor.lab.workers.flags import Flags
from rebalance_monitor.streaming.spark.session import session_settings
from tests.hostile import hostile_folder

if TYPE_CHECKING:
    from rebalance_monitor.lab.cluster.broker import LabBroker


def open_to_others(folder: Path) -> set[str]:
    """The files and folders right in `folder` that others than their owner may read."""
    found = set()
    for path in folder.iterdir():
        try:
            mode = path.stat().st_mode
        except OSError:
            continue
        if mode & 0o077:
            found.add(path.name)
    return found


@pytest.mark.spark
@pytest.mark.broker
def test_the_job_runs_no_module_of_its_folder_and_opens_no_scratch_file_to_others(
    lab_broker: LabBroker, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": lab_broker.bootstrap})
    admin.create_topics([NewTopic("scratch", 1, 1)])["scratch"].result()
    consumer = Consumer({"bootstrap.servers": lab_broker.bootstrap, "group.id": "beside-hostile-modules"})
    consumer.commit(offsets=[TopicPartition("scratch", 0, 1)], asynchronous=False)
    consumer.close()
    (scratch := tmp_path / "tmp").mkdir()
    folder = hostile_folder(tmp_path / "current")
    words = ["run", "--available-now", "--set", f"kafka.bootstrap_servers={lab_broker.bootstrap}"]
    words += ["--set", f"storage.path={tmp_path / 'data'}", "--set", "web.enabled=false"]
    job = subprocess.Popen(
        [Path(sys.executable).with_name("rebalance-monitor"), *words],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    seen, ended = set[str](), threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            seen.update(open_to_others(scratch))

    (looking := threading.Thread(target=look)).start()
    _, said = job.communicate(timeout=300)
    ended.set()
    looking.join()
    assert job.returncode == 0, said[-3000:]
    assert list((tmp_path / "data").glob("state/**/commits/0"))
    assert [path.name for path in folder.glob("*.ran")] == []
    assert seen == set()
    assert [path.name for path in scratch.glob("rebalance-monitor-*")] == []


def test_workers_that_executors_elsewhere_start_have_a_safe_path_too() -> None:
    for environment in ({}, {"PYSPARK_GATEWAY_PORT": "1"}, {"DATABRICKS_RUNTIME_VERSION": "16.4"}):
        assert session_settings({}, [], environment)["spark.executorEnv.PYTHONSAFEPATH"] == "1"


@pytest.mark.parametrize("family", [family for family in FAMILIES.values() if family.language == "python"])
def test_a_worker_of_the_lab_is_started_with_a_safe_path(family: Family) -> None:
    assert command(family, Flags(bootstrap="b:1", topics="t", group="g"))[1] == "-P"
