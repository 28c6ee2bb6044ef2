"""Other tools over the same topic: KMinion and Burrow, each a process of its own, where its program is given.

`KMINION_BIN` and `BURROW_BIN` name the programs (`go build` in a clone of each makes them). What counts is
the CPU time until it rests: in `REST_S` seconds it used less than `RESTING` of one core. KMinion says how
many records it has read, and must have read all; Burrow does not say. It does not start without a ZooKeeper:
it gets one from Spark's own jars, which does not count. It asks brokers for the topics that groups commit
for, and drops the commits for those that do not exist, which is all of the mix: it stores less than others.
Where topics exist it must say what waits for the groups.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.request import urlopen

from bench.measure.trees import process_of
from rebalance_monitor.cluster.jars.java import find_java

if TYPE_CHECKING:
    from collections.abc import Iterator

BINARIES = {"kminion": "KMINION_BIN", "burrow": "BURROW_BIN"}
EVERY_S, REST_S, RESTING, LIMIT_S = 0.1, 4.0, 0.05, 600.0
HOST = "127.0.0.1"
COUNTER = "kminion_exporter_offset_consumer_records_consumed_total"


def given() -> list[str]:
    """Return the rivals whose program is named in the environment."""
    return [name for name, variable in BINARIES.items() if os.environ.get(variable)]


class Rival(NamedTuple):
    """A rival that runs; `port`: where it serves its metrics."""

    process: subprocess.Popen[bytes]
    port: int

    def scrape(self, path: str = "metrics") -> bytes:
        """Ask for its metrics once, or for another page."""
        with urlopen(f"http://{HOST}:{self.port}/{path}", timeout=60) as answer:
            page: bytes = answer.read()
        return page


@contextmanager
def started(name: str, bootstrap: str) -> Iterator[Rival]:
    """Run a rival over the topic from its beginning until the block ends."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        command, environment = [str(Path(os.environ[BINARIES[name]]).resolve())], {}
        port = _free_port()
        if name == "burrow":
            zookeeper = stack.enter_context(_zookeeper(folder))
            (folder / "burrow.toml").write_text(_burrow(bootstrap, zookeeper, port), encoding="utf-8")
            command += ["--config-dir", str(folder)]
        else:
            environment = _kminion(bootstrap, port)
        yield Rival(stack.enter_context(_running(command, folder, environment)), port)


def drain(name: str, bootstrap: str, records: int) -> dict[str, float]:
    """Let a rival read the topic from its beginning until it rests, and give what that took as a row."""
    with started(name, bootstrap) as rival:
        seconds, cpu_s, peak = _until_it_rests(rival.process)
        if name == "kminion":
            require_read(rival, round(0.95 * records))
    return {
        "records": records,
        "seconds": seconds,
        "jvm_s": 0.0,
        "python_s": cpu_s,
        "jvm_bytes": 0,
        "python_bytes": peak,
    }


def _until_it_rests(process: subprocess.Popen[bytes]) -> tuple[float, float, int]:
    """Give seconds and CPU seconds from the start to its last work, and its peak memory in bytes."""
    began, peak = time.monotonic(), 0
    used: list[tuple[float, float]] = [(0.0, 0.0)]
    while (now := time.monotonic() - began) < LIMIT_S:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        seen = process_of(process.pid)
        if seen is not None:
            peak = max(peak, seen.resident)
            used.append((now, seen.cpu_s))
            before = next(cpu for at, cpu in used if at >= now - REST_S)
            if now > 2 * REST_S and seen.cpu_s - before < RESTING * REST_S:
                return _worked(used), before, peak
        time.sleep(EVERY_S)
    raise RuntimeError(f"{process.args!r} did not come to rest within {LIMIT_S:.0f} s")


def require_read(rival: Rival, least: int) -> None:
    """RuntimeError where KMinion has read fewer records than that; markers are no records."""
    counted = re.search(rf"^{COUNTER}\S* (\S+)$", rival.scrape().decode(), re.MULTILINE)
    read = float(counted.group(1)) if counted else 0.0
    if read < least:
        raise RuntimeError(f"KMinion has read {read:,.0f} records, not {least:,}")


def require_lag(rival: Rival, groups: int) -> None:
    """RuntimeError where Burrow does not list nine in ten groups, or knows no lag of the first."""
    listed = json.loads(rival.scrape("v3/kafka/bench/consumer"))["consumers"]
    if len(listed) < 0.9 * groups:
        raise RuntimeError(f"Burrow lists {len(listed):,} groups of {groups:,}")
    known = json.loads(rival.scrape(f"v3/kafka/bench/consumer/{min(listed)}/lag"))["status"]
    if not known["partition_count"]:
        raise RuntimeError(f"Burrow knows no lag: {known}")


def _worked(used: list[tuple[float, float]]) -> float:
    """Give when it had used all but a hundredth of its CPU time."""
    return next(at for at, cpu in used if cpu >= 0.99 * used[-1][1])


@contextmanager
def _running(
    command: list[str], folder: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _kminion(bootstrap: str, port: int) -> dict[str, str]:
    return {
        "KAFKA_BROKERS": bootstrap,
        "MINION_CONSUMERGROUPS_SCRAPEMODE": "offsetsTopic",
        "EXPORTER_HOST": HOST,
        "EXPORTER_PORT": str(port),
        "LOGGER_LEVEL": "error",
    }


def _burrow(bootstrap: str, zookeeper: str, port: int) -> str:
    return f"""
[general]
pidfile="burrow.pid"
[logging]
filename="burrow.log"
level="error"
[zookeeper]
servers=["{zookeeper}"]
timeout=6
root-path="/burrow"
[client-profile.bench]
client-id="bench-burrow"
kafka-version="2.1.0"
[cluster.bench]
class-name="kafka"
servers=["{bootstrap}"]
client-profile="bench"
topic-refresh=60
offset-refresh=30
[consumer.bench]
class-name="kafka"
cluster="bench"
servers=["{bootstrap}"]
client-profile="bench"
[httpserver.default]
address="{HOST}:{port}"
[storage.default]
class-name="inmemory"
"""


@contextmanager
def _zookeeper(folder: Path) -> Iterator[str]:
    """Run a ZooKeeper from Spark's jars; yields its address."""
    import pyspark  # noqa: PLC0415 - a slow import, and only where its jars are needed

    port = _free_port()
    settings = folder / "zoo.cfg"
    settings.write_text(
        f"dataDir={folder / 'zookeeper'}\nclientPort={port}\nclientPortAddress={HOST}\n"
        "admin.enableServer=false\n",
        encoding="utf-8",
    )
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    main = "org.apache.zookeeper.server.ZooKeeperServerMain"
    command = [str(find_java().executable), "-Xmx64m", "-cp", str(jars), main, str(settings)]
    with _running(command, folder, {}):
        _await(port)
        yield f"{HOST}:{port}"


def _await(port: int, patience_s: float = 30.0) -> None:
    until = time.monotonic() + patience_s
    while True:
        try:
            socket.create_connection((HOST, port), 1.0).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(EVERY_S)
        else:
            return


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((HOST, 0))
        port: int = one.getsockname()[1]
        return port
