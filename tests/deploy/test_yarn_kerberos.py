"""The job where everybody logs in by Kerberos: YARN with two nodes, HDFS with permissions, and the broker."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from rebalance_monitor.checkpoints.state.manifest import read_manifest
from rebalance_monitor.checkpoints.storage.hadoop_jvm import use_jvm
from rebalance_monitor.checkpoints.storage.places import place_at
from rebalance_monitor.cluster.jars.shared_jvm import SHARED_JVM
from rebalance_monitor.config.load import load
from rebalance_monitor.lab.cluster.node import wait_until
from tests.chaos.support.clock import Clock
from tests.chaos.support.rig import Rig
from tests.cluster.support.kdc import PRINCIPAL, Kdc, kerberos_broker, missing_programs
from tests.deploy.minicluster import TOKEN_LIVES_MS, MiniCluster
from tests.deploy.submitted import Submitted
from tests.deploy.test_yarn import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.support.login_broker import LoginBroker

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.spark,
    pytest.mark.broker,
    pytest.mark.timeout(3_600),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
TICKET = "120s"


@pytest.fixture
def kdc(tmp_path: Path) -> Iterator[Kdc]:
    if missing := missing_programs():
        pytest.skip(f"{', '.join(missing)} not installed (make deps-ci)")
    with Kdc(tmp_path / "kdc", TICKET, Clock(tmp_path)) as found:
        yield found


@pytest.fixture
def broker(tmp_path: Path, kdc: Kdc) -> Iterator[LoginBroker]:
    with kerberos_broker(tmp_path / "broker", kdc) as found:
        yield found


@pytest.fixture
def hadoop(tmp_path: Path, kdc: Kdc) -> Iterator[MiniCluster]:
    (tmp_path / "hadoop").mkdir()
    with MiniCluster(tmp_path / "hadoop", nodes=2, kdc=kdc) as found:
        yield found


@pytest.fixture
def _our_jvm(hadoop: MiniCluster, kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process reads what the job writes as the verbs do: by a JVM of its own that has the keytab."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hadoop.conf))
    given = {
        "spark.kerberos.keytab": str(kdc.folder / "monitor.keytab"),
        "spark.kerberos.principal": PRINCIPAL,
        "spark.driver.extraJavaOptions": f"-Djava.security.krb5.conf={kdc.config}",
    }
    SHARED_JVM.configure(load(flags={"spark": given}), lambda: None)
    use_jvm(SHARED_JVM.for_files)
    yield
    use_jvm(lambda _: None)
    SHARED_JVM.close()


@pytest.mark.usefixtures("_our_jvm")
def test_a_job_behind_kerberos_survives_a_node_its_master_its_tokens_and_its_end(
    hadoop: MiniCluster, broker: LoginBroker, kdc: Kdc, tmp_path: Path
) -> None:
    path = f"{hadoop.file_system}/user/monitor/job"
    kafka: dict[str, Any] = {"bootstrap_servers": broker.sasl, **kdc.login()}
    job = Submitted(hadoop, {"kafka": kafka, "storage": {"path": path}}, tmp_path / "job", kdc=kdc)
    rig = Rig(broker.bootstrap, tmp_path / "rig")
    rig.job.storage = place_at(path)
    rig.pulse("krb-a")
    job.submit()
    submitted = time.monotonic()
    rig.await_told(lambda f: f.group == "krb-a", PATIENCE_S)
    (executor,) = job.executors()
    hadoop.end_node(hadoop.node_of(executor))
    rig.pulse("krb-node")
    rig.await_told(lambda f: f.group == "krb-node", PATIENCE_S)
    assert executor not in job.executors()
    (master,) = job.masters()
    os.kill(master, signal.SIGKILL)
    rig.pulse("krb-master")
    rig.await_told(lambda f: f.group == "krb-master", PATIENCE_S)
    assert master not in job.masters()
    # Older than any token that it was submitted with can be.
    time.sleep(max(0.0, submitted + 1.2 * TOKEN_LIVES_MS / 1_000 - time.monotonic()))
    rig.pulse("krb-tokens")
    rig.await_told(lambda f: f.group == "krb-tokens", PATIENCE_S)
    kill(job)
    rig.pulse("krb-kill")
    time.sleep(2)
    job.submit()
    rig.await_told(lambda f: f.group == "krb-kill", PATIENCE_S)
    rig.require_truth()
    # Nobody gave up the state for another one.
    manifest = read_manifest(rig.job.storage / "manifest.json")
    assert manifest is not None
    assert manifest.generation == 1
    assert not [f for f in rig.told() if f.details.get("cause") == "state_rebuilt"]
    assert not list(tmp_path.glob("job/data*")), "something was written beside HDFS"
    kill(job)


def kill(job: Submitted) -> None:
    """What `yarn application -kill` does, as the principal of our JVM."""
    jvm: Any = SHARED_JVM.for_files("hdfs")
    client = jvm.org.apache.hadoop.yarn.client.api.YarnClient.createYarnClient()
    client.init(jvm.org.apache.hadoop.yarn.conf.YarnConfiguration())
    client.start()
    client.killApplication(jvm.org.apache.hadoop.yarn.api.records.ApplicationId.fromString(job.application))
    client.close()
    assert wait_until(lambda: not job.masters(), 60)
