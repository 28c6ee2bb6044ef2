"""Where the job is tried on YARN: plain, and where everybody logs in by Kerberos."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from rebalance_monitor.checkpoints.storage.places import place_at
from rebalance_monitor.cluster.jars.shared_jvm import SHARED_JVM
from rebalance_monitor.lab.cluster.broker import LabBroker
from tests.chaos.support.clock import Clock
from tests.chaos.support.rig import Rig
from tests.cluster.support.kdc import Kdc, kerberos_broker, missing_programs
from tests.deploy.minicluster import TOKEN_LIVES_MS, MiniCluster, our_jvm
from tests.deploy.submitted import Submitted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TICKET = "120s"


@dataclass(frozen=True)
class Site:
    """A YARN, a job for it, and the groups that it watches. lasts_s: as long its first login may hold."""

    hadoop: MiniCluster
    job: Submitted
    rig: Rig
    lasts_s: float = 0.0

    def lose_executor(self, executor: int) -> None:
        """Kill the process."""
        os.kill(executor, signal.SIGKILL)

    def kill(self) -> None:
        """Do what `yarn application -kill` does."""
        self.job.kill()


class SecuredSite(Site):
    """One with two nodes, where everything lies on HDFS."""

    def lose_executor(self, executor: int) -> None:
        """End the node that runs it."""
        self.hadoop.end_node(self.hadoop.node_of(executor))

    def kill(self) -> None:
        """Kill the application, as the principal of our JVM."""
        jvm: Any = SHARED_JVM.for_files("hdfs")
        client = jvm.org.apache.hadoop.yarn.client.api.YarnClient.createYarnClient()
        client.init(jvm.org.apache.hadoop.yarn.conf.YarnConfiguration())
        client.start()
        number = jvm.org.apache.hadoop.yarn.api.records.ApplicationId.fromString(self.job.application)
        client.killApplication(number)
        client.close()


@contextmanager
def plain_site(folder: Path, archive: Path | None = None) -> Iterator[Site]:
    """State on HDFS, the job's own folder on a path that every node has."""
    with LabBroker() as broker, MiniCluster(folder / "hadoop") as hadoop:
        data = folder / "job" / "data"
        storage = {"path": str(data), "checkpoint": f"{hadoop.file_system}/monitor"}
        settings = {"kafka": {"bootstrap_servers": broker.bootstrap}, "storage": storage}
        rig = Rig(broker.bootstrap, folder / "rig")
        rig.job.storage = data
        yield Site(hadoop, Submitted(hadoop, settings, folder / "job", archive=archive), rig)


@contextmanager
def secured_site(folder: Path) -> Iterator[Site]:
    """Tickets of two minutes, delegation tokens of three, and HDFS with permissions."""
    if missing := missing_programs():
        pytest.skip(f"{', '.join(missing)} not installed (make deps-ci)")
    with (
        Kdc(folder / "kdc", TICKET, Clock(folder)) as kdc,
        kerberos_broker(folder / "broker", kdc) as broker,
        MiniCluster(folder / "hadoop", nodes=2, kdc=kdc) as hadoop,
        our_jvm(hadoop, kdc),
    ):
        path = f"{hadoop.file_system}/user/monitor/job"
        kafka = {"bootstrap_servers": broker.sasl, **kdc.login()}
        settings = {"kafka": kafka, "storage": {"path": path}}
        rig = Rig(broker.bootstrap, folder / "rig")
        rig.job.storage = place_at(path)
        job = Submitted(hadoop, settings, folder / "job", kdc=kdc)
        yield SecuredSite(hadoop, job, rig, 1.2 * TOKEN_LIVES_MS / 1_000)
        assert not list(folder.glob("job/data*")), "something was written beside HDFS"


SITES = {"plain": plain_site, "kerberos": secured_site}
