"""A real Alertmanager on loopback for tests: started with a configuration of one's own, ended with the test.

Debian's package is `prometheus-alertmanager`; `make deps-ci` installs it. Without it the tests that need it
are skipped and say so.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.error import URLError

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

READY_S = 30
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@contextmanager
def alertmanager(folder: Path, configuration: str) -> Iterator[str]:
    """Run Alertmanager with this YAML and give its address; `folder` takes its data and its log."""
    found = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if found is None:
        pytest.skip("no Alertmanager here: make deps-ci installs prometheus-alertmanager")
    (folder / "alertmanager.yml").write_text(configuration, encoding="utf-8")
    address = f"127.0.0.1:{_free_port()}"
    arguments = [
        "--config.file=alertmanager.yml",
        "--storage.path=data",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
        "--log.level=warn",
    ]
    with (folder / "alertmanager.log").open("wb") as log:
        running = subprocess.Popen([found, *arguments], cwd=folder, stdout=log, stderr=log)
    try:
        _wait(f"http://{address}", folder)
        yield f"http://{address}"
    finally:
        running.terminate()
        running.wait(10)


def alerts(address: str) -> list[dict[str, Any]]:
    """Return the alerts that Alertmanager holds as firing."""
    with _OPENER.open(f"{address}/api/v2/alerts", timeout=5) as answer:
        return list(json.load(answer))


def _wait(address: str, folder: Path) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        try:
            with _OPENER.open(f"{address}/-/ready", timeout=2):
                return
        except (URLError, OSError):
            time.sleep(0.1)
    pytest.fail("Alertmanager did not start: " + (folder / "alertmanager.log").read_text(encoding="utf-8"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
