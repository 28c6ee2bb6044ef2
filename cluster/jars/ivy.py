"""Jars by Apache Ivy, the resolver that ships inside pyspark: no Maven needed.

One call resolves a list of `org:name:version` coordinates into a folder. The folder appears whole, by rename,
or not at all; Ivy's own cache is guarded by a lock file, because it is not safe for two processes.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from rebalance_monitor.cluster.errors import DependencyError, DownloadError
from rebalance_monitor.cluster.jars.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TIMEOUT_S = 900
SILENT_S = 2.0
_MISSING = re.compile(r"::\s+(?P<org>[\w.\-]+)#(?P<name>[\w.\-]+);(?P<version>[\w.\-]+)(?:!(?P<file>\S+))?")


@dataclass(frozen=True, slots=True)
class Coordinate:
    """One Maven artifact: organisation, name, version."""

    org: str
    name: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Coordinate:
        """Read `org:name:version`; DependencyError on anything else."""
        parts = text.strip().split(":")
        if len(parts) != 3 or not all(parts):  # noqa: PLR2004 - org, name, version
            raise DependencyError(
                f"`{text}` is not a package coordinate.", "Write it as organisation:artifact:version."
            )
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.org}:{self.name}:{self.version}"


def cache_folder() -> Path:
    """Give the folder for downloaded jars: $XDG_CACHE_HOME/rebalance-monitor, ~/.cache by default.

    Raises DependencyError.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "rebalance-monitor"
    except RuntimeError as error:
        raise DependencyError(
            "There is no place for jars: this user has no home folder.",
            "Set XDG_CACHE_HOME to a folder that it may write to.",
        ) from error


def spark_jars_folder() -> Path:
    """Give the `jars` folder of the installed Spark ($SPARK_HOME first), without importing pyspark."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home) / "jars"
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise DependencyError(
            "pyspark is not installed in this environment.",
            "Install it: pip install 'pyspark>=3.5,<4.4'.",
        )
    return Path(next(iter(spec.submodule_search_locations))) / "jars"


def resolve(
    wanted: Sequence[Coordinate],
    target: Path,
    *,
    excluded: Sequence[str] = (),
    say: Callable[[str], None] | None = None,
) -> list[Path]:
    """Fetch `wanted` and what they need into the folder `target`, and list its jars, sorted.

    `excluded` are organisations left out. A `target` that exists is complete: then no network and no JVM.
    Raises DownloadError naming the artifact; `say` is called with the progress if it takes longer than 2 s.
    """
    if not target.is_dir():
        _make(target.parent)
        with _lock(cache_folder() / "ivy.lock"):
            if not target.is_dir():
                _fetch(wanted, target, excluded, say or _to_stderr)
    return sorted(target.glob("*.jar"))


def _fetch(
    wanted: Sequence[Coordinate], target: Path, excluded: Sequence[str], say: Callable[[str], None]
) -> None:
    work = Path(tempfile.mkdtemp(prefix=".fetch-", dir=target.parent))
    try:
        with _reported_when_slow(f"Fetching {', '.join(map(str, wanted))} (once, into {target}) …", say):
            _run_ivy(wanted, work, excluded)
        (work / "jars").rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run_ivy(wanted: Sequence[Coordinate], work: Path, excluded: Sequence[str]) -> None:
    module = work / "ivy.xml"
    module.write_text(_ivy_module(wanted, excluded), encoding="utf-8")
    command = [str(find_java().executable), "-Xmx512m", "-jar", str(_ivy_jar())]
    command += ["-cache", str(cache_folder() / "ivy"), "-ivy", str(module), "-confs", "default"]
    command += ["-retrieve", f"{work}/jars/[artifact]-[revision](-[classifier]).[ext]"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise _failed(wanted, [f"no end after {TIMEOUT_S} s"]) from error
    if done.returncode or not any((work / "jars").glob("*.jar")):
        raise _failed(wanted, unresolved(done.stdout + done.stderr))


def unresolved(output: str) -> list[str]:
    """Give the artifacts that Ivy's output reports as not found or not downloaded."""
    tail = output[output.find(":: problems summary ::") :] if ":: problems" in output else output
    named = (f"{match['org']}:{match['name']}:{match['version']}" for match in _MISSING.finditer(tail))
    return list(dict.fromkeys(named)) or output.strip().splitlines()[-1:]


def _failed(wanted: Sequence[Coordinate], missing: Sequence[str]) -> DownloadError:
    return DownloadError(
        f"Could not fetch {', '.join(map(str, wanted))}: {', '.join(missing[:5])} did not resolve.",
        "Check that this machine reaches Maven Central (a proxy goes into JAVA_TOOL_OPTIONS as "
        "-Dhttps.proxyHost=…), "
        "or list the files yourself under `jars:` in the configuration, or other versions under `packages:`.",
    )


def _ivy_module(wanted: Sequence[Coordinate], excluded: Sequence[str]) -> str:
    needs = "".join(
        f"<dependency org={quoteattr(c.org)} name={quoteattr(c.name)} rev={quoteattr(c.version)}"
        ' force="true" conf="default->default"/>'
        for c in wanted
    )
    leaves = "".join(f"<exclude org={quoteattr(org)}/>" for org in excluded)
    return (
        '<ivy-module version="2.0"><info organisation="rebalance-monitor" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{needs}{leaves}</dependencies></ivy-module>"
    )


def _ivy_jar() -> Path:
    folder = spark_jars_folder()
    found = sorted(folder.glob("ivy-*.jar"))
    if not found:
        raise DependencyError(
            f"The Spark in {folder} carries no Ivy (ivy-*.jar).",
            "Install pyspark from PyPI, or list the jar files under `jars:` in the configuration.",
        )
    return found[-1]


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DependencyError(
            f"The folder for jars, {folder}, cannot be made: {error.strerror}.",
            "Set XDG_CACHE_HOME to a folder that this user may write to.",
        ) from error


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    _make(path.parent)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def _reported_when_slow(message: str, say: Callable[[str], None]) -> Iterator[None]:
    timer = threading.Timer(SILENT_S, say, [message])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _to_stderr(message: str) -> None:
    sys.stderr.write(message + "\n")
