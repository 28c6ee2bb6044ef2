"""The streaming job as its users start it, in a process of its own, for the demo and the accuracy suite."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import yaml

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.coordinator.findings.finding import from_json
from rebalance_monitor.lab.cluster.leash import Leash
from rebalance_monitor.lab.cluster.node import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from rebalance_monitor.coordinator.findings.finding import Finding

JOB_READY_S = 180.0
# What the job's log says of its page.
SERVED = '"the page is served"'
JOB_STOP_S = 30.0


class Job:
    """`rebalance-monitor run --config FILE`, with its files in `folder`.

    `detection` overrides defaults; `alerts` is that section of the configuration.
    """

    def __init__(
        self,
        bootstrap: str,
        folder: Path,
        detection: Mapping[str, object] | None = None,
        alerts: Mapping[str, object] | None = None,
    ) -> None:
        self._folder = folder
        self._detection = dict(detection or {})
        self._alerts = dict(alerts or {})
        self.storage = folder / "monitor"
        # The environment it runs in; another one may hold another Spark.
        self.python = sys.executable
        self._read = 0
        self._rest = b""
        folder.mkdir(parents=True, exist_ok=True)
        self.config = folder / "monitor.yaml"
        self.config.write_text(yaml.safe_dump(self._settings(bootstrap), sort_keys=False), encoding="utf-8")

    def _settings(self, bootstrap: str) -> dict[str, object]:
        return {
            "cluster_name": "lab",
            "kafka": {"bootstrap_servers": bootstrap},
            "spark": {"spark.master": "local[2]", "spark.driver.memory": "1g"},
            "storage": {"path": str(self.storage)},
            "detection": self._detection,
            "alerts": self._alerts,
            "outputs": {"console": False},
            "probe": {"interval": "1s"},
            "metrics": {"partitions": ["*"]},
        }

    def __enter__(self) -> Self:
        main = "from rebalance_monitor.cli.main import main; main()"
        with (self._folder / "monitor.log").open("wb") as log:
            self._process = subprocess.Popen(
                [self.python, "-P", "-c", main, "run", "--config", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._leash = Leash(self._process.pid)
        return self

    def wait_ready(self, patience_s: float = JOB_READY_S) -> None:
        """Wait until the first batch is committed. Raises DependencyError with the end of the job's log."""
        wait_until(lambda: self._committed() or not self.alive, patience_s, every_s=0.3)
        if not self._committed():
            self.require()
            raise DependencyError(f"The monitor did not start within {patience_s:.0f} s:\n{self._log()}")

    def _committed(self) -> bool:
        if any(self.storage.glob("state/*/changelog-*")):
            return self._published_state() >= 0
        return any(self.storage.glob("state/**/commits/[0-9]*"))

    def _published_state(self) -> int:
        """Give the state of which the ledger has a batch, -1 before the first."""
        try:
            return int(json.loads((self.storage / "ledger" / "snapshot.json").read_bytes())["generation"])
        except FileNotFoundError:
            return -1

    @property
    def alive(self) -> bool:
        """Whether the job runs."""
        return self._process.poll() is None

    def require(self) -> None:
        """Raise DependencyError with the end of the job's log when it no longer runs."""
        if not self.alive:
            raise DependencyError(f"The monitor ended with code {self._process.returncode}:\n{self._log()}")

    def _log(self) -> str:
        text = (self._folder / "monitor.log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-15:])

    def page(self) -> str | None:
        """Give the address of the job's page, None where its port was taken."""
        for line in (self._folder / "monitor.log").read_text(encoding="utf-8", errors="replace").splitlines():
            if SERVED in line and line.startswith("{"):
                return str(json.loads(line)["url"])
        return None

    def findings(self) -> Iterator[Finding]:
        """Give the findings since the last call."""
        path = self.storage / "findings.jsonl"
        if not path.exists():
            return
        with path.open("rb") as lines:
            lines.seek(self._read)
            text = self._rest + lines.read()
            self._read = lines.tell()
        *whole, self._rest = text.split(b"\n")
        for line in whole:
            yield from_json(line.decode())

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(JOB_STOP_S)
        # Spark's JVM and Python workers live in the job's own session.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._leash.release()
