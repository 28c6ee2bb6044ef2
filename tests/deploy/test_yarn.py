"""deploy/yarn on a real YARN and HDFS: executor, node, master and application end; it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.checkpoints.state.manifest import read_manifest
from rebalance_monitor.engine.storage import Storage
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.rig import of_faults
from tests.deploy.minicluster import processes
from tests.deploy.submitted import ROOT
from tests.deploy.yarn_sites import SITES, plain_site

if TYPE_CHECKING:
    from pathlib import Path

    from tests.deploy.yarn_sites import Site

pytestmark = of_faults(3_600)
PATIENCE_S = max(420.0, float(os.environ.get("CHAOS_PATIENCE_S", "0")))


@pytest.mark.parametrize("where", SITES)
def test_a_job_on_yarn_survives_its_executor_its_master_its_tokens_and_its_end(
    tmp_path: Path, where: str
) -> None:
    with SITES[where](tmp_path) as site:
        job, rig = site.job, site.rig
        rig.pulse("begins")
        job.submit()
        submitted = time.monotonic()
        await_group(site, "begins")
        (executor,) = job.executors()
        site.lose_executor(executor)
        rig.pulse("without-executor")
        await_group(site, "without-executor")
        assert executor not in job.executors()
        (master,) = job.masters()
        os.kill(master, signal.SIGKILL)
        rig.pulse("without-master")
        await_group(site, "without-master")
        assert master not in job.masters()
        # Older than any token that it was submitted with can be.
        time.sleep(max(0.0, submitted + site.lasts_s - time.monotonic()))
        rig.pulse("without-tokens")
        await_group(site, "without-tokens")
        kill(site)
        rig.pulse("without-job")
        time.sleep(2)
        job.submit()
        await_group(site, "without-job")
        rig.require_truth()
        # Nobody gave up the state for another one.
        manifest = read_manifest(Storage(rig.job.storage).manifest)
        assert manifest is not None
        assert manifest.generation == 1
        assert not [f for f in rig.told() if f.details.get("cause") == "state_rebuilt"]
        kill(site)


def await_group(site: Site, group: str) -> None:
    """Wait until the job has found something about the group."""
    site.rig.await_told(lambda f: f.group == group, PATIENCE_S)


def kill(site: Site) -> None:
    """Kill the application, and wait until its master has ended."""
    site.kill()
    assert wait_until(lambda: not site.job.masters(), 60)


def test_a_job_on_yarn_runs_by_the_packed_environment_alone(tmp_path: Path) -> None:
    archive = tmp_path / "environment.tar.gz"
    packing = subprocess.run(
        [ROOT / "deploy" / "yarn" / "pack.sh", archive],
        env=os.environ | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert packing.returncode == 0, packing.stderr[-3_000:]
    with plain_site(tmp_path, archive) as site:
        site.rig.pulse("packed")
        site.job.submit()
        await_group(site, "packed")
        # The driver, and the executor's daemon with its workers.
        pythons = [text.split() for pid, text in processes() if "python" in text and site.hadoop.runs(pid)]
        interpreters = {words[0] for words in pythons if words[0].endswith("/python")}
        assert interpreters == {"environment/bin/python"}
        assert any(word.endswith("run.py") for words in pythons for word in words)
        assert any(word.endswith(".daemon") for words in pythons for word in words)
        site.rig.require_truth()
        kill(site)
