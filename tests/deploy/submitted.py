"""The job on a YARN of tests, by the script that users run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from rebalance_monitor.cluster.jars.ivy import spark_jars_folder
from rebalance_monitor.cluster.jars.jars import installed_spark, resolve_spark_kafka
from rebalance_monitor.cluster.jars.java import find_java
from tests.cluster.support.kdc import PRINCIPAL, Kdc
from tests.deploy.minicluster import MiniCluster, processes

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[2]


class Submitted:
    """Without an archive the nodes have this environment. kdc: whose keytab of the monitor goes with it."""

    def __init__(
        self,
        hadoop: MiniCluster,
        settings: Mapping[str, object],
        folder: Path,
        *,
        archive: Path | None = None,
        kdc: Kdc | None = None,
    ) -> None:
        self._hadoop, self._conf, self._folder, self.application = hadoop, hadoop.conf, folder, ""
        self.log = folder / "submit.log"
        home = spark_jars_folder().parent
        self._environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "HADOOP_CONF_DIR": str(hadoop.conf),
            "YARN_CONF_DIR": str(hadoop.conf),
            "HADOOP_USER_NAME": "monitor",
            "JAVA_HOME": str(find_java().home),
            **({"ARCHIVE": str(archive)} if archive else {"PYTHON_ON_NODES": sys.executable}),
            "PACKAGES": "",
            "DRIVER_MEMORY": "1g",
            "EXECUTOR_MEMORY": "1g",
            "EXECUTORS": "1",
        }
        jars = ",".join(f"local:{jar}" for jar in resolve_spark_kafka(*installed_spark()))
        self._options = [
            *("--jars", jars),
            *("--conf", f"spark.yarn.jars=local:{home}/jars/*"),
            *("--conf", "spark.yarn.am.waitTime=300s"),
        ]
        if archive is None:
            self._options += ["--conf", f"spark.yarn.appMasterEnv.PYTHONPATH={home.parent}"]
        if kdc is not None:
            self._environment |= kdc.environment
            self._environment |= {"KEYTAB": str(kdc.folder / "monitor.keytab"), "PRINCIPAL": PRINCIPAL}
            # The realm of every JVM: no krb5.conf of the system names it.
            realm = f"JDK_JAVA_OPTIONS={kdc.environment['JDK_JAVA_OPTIONS']}"
            for kind in ("yarn.appMasterEnv", "executorEnv"):
                self._options += ["--conf", f"spark.{kind}.{realm}"]
        common = {"spark": {"spark.sql.shuffle.partitions": "1"}, "web": {"enabled": False}}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "monitor.yaml").write_text(yaml.safe_dump({**settings, **common}))

    def submit(self) -> None:
        with self.log.open("wb") as log:
            command = [ROOT / "deploy" / "yarn" / "submit.sh", self._folder / "monitor.yaml", *self._options]
            done = subprocess.run(command, env=self._environment, stdout=log, stderr=log, check=False)
        text = self.log.read_text(errors="replace")
        assert done.returncode == 0, text[-3_000:]
        self.application = re.findall(r"application_\d+_\d+", text)[-1]

    def kill(self) -> None:
        """What `yarn application -kill` does."""
        home = self._environment["SPARK_HOME"]
        verb = ["org.apache.hadoop.yarn.client.cli.ApplicationCLI", "application", "-kill", self.application]
        command = [find_java().executable, "-cp", f"{self._conf}:{home}/jars/*", *verb]
        subprocess.run(command, env=self._environment, check=True, capture_output=True)

    def masters(self) -> list[int]:
        """The application's masters that run."""
        return self._java_processes("yarn.ApplicationMaster")

    def executors(self) -> list[int]:
        """Its executors that run."""
        return self._java_processes("YarnCoarseGrainedExecutorBackend")

    def _java_processes(self, name: str) -> list[int]:
        """JVMs of its cluster that run this class, without the shells that start them."""
        found = [(pid, text.split()) for pid, text in processes() if name in text and self._hadoop.runs(pid)]
        return [pid for pid, words in found if words[0].endswith("/bin/java")]
