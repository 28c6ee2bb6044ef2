"""The Go and Node workers, and hosts for all: built once per source text, by the ordinary tools.

What is built lies in the cache beside the jars. The modules and packages are pinned with their checksums
(`go.sum`, `package-lock.json`); where they come from is what `go` and `npm` are configured with.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_monitor.cluster.errors import DependencyError
from rebalance_monitor.cluster.jars.ivy import cache_folder
from rebalance_monitor.lab import workers

if TYPE_CHECKING:
    from collections.abc import Callable

WORKERS = Path(str(workers.__file__)).parent
# What go.mod and kafkajs ask for.
GO, NODE = (1, 23), (14,)
_BUILD_S = 600
_BUILDING = threading.Lock()


def go_command(client: str) -> list[str]:
    """Give the command that plays a Go client, up to its flags. Raises DependencyError."""
    return [str(_built("go", _build_go) / "worker"), client]


def node_command() -> list[str]:
    """Give the command that plays kafkajs, up to its flags. Raises DependencyError."""
    return [_require("node", NODE, "--version"), str(_built("node", _install_node) / "worker.js")]


def environment(language: str, host: str) -> dict[str, str]:
    """Give what a worker's environment needs for its connections to come from `host`, a loopback address.

    The Go worker sees to that by itself, all others have a library preloaded. Raises DependencyError.
    """
    found = {"LAB_SOURCE": host}
    return found if language == "go" else {**found, "LD_PRELOAD": str(_built("c", _build_c) / "source.so")}


def why_no_hosts() -> str | None:
    """Give the reason why workers cannot have hosts of their own here; None if they can."""
    if sys.platform != "linux":
        return "only Linux has more than one loopback address without being asked"
    return None if shutil.which("cc") else "cc is not on the PATH"


def why_no_go() -> str | None:
    """Give the reason why there can be no Go worker here; None if there can."""
    return _why_not("go", GO, "version")


def why_no_node() -> str | None:
    """Give the reason why there can be no Node worker here; None if there can."""
    missing = None if shutil.which("npm") else "npm is not on the PATH"
    return _why_not("node", NODE, "--version") or missing


def _why_not(tool: str, needed: tuple[int, ...], asking: str) -> str | None:
    try:
        _require(tool, needed, asking)
    except DependencyError as error:
        return error.what
    return None


def _require(tool: str, needed: tuple[int, ...], asking: str) -> str:
    path = shutil.which(tool)
    wanted = ".".join(map(str, needed))
    if path is None:
        raise DependencyError(f"{tool} is not on the PATH", f"Install {tool} {wanted} or later.")
    said = _run([path, asking], Path.cwd())
    found = re.search(r"(\d+)\.(\d+)", said)
    version = tuple(map(int, found.groups())) if found else ()
    if version < needed:
        raise DependencyError(f"{tool} {wanted} or later is needed, and here is {said.strip()}")
    return path


def _build_go(sources: Path, target: Path) -> None:
    go = _require("go", GO, "version")
    _run([go, "build", "-mod=readonly", "-trimpath", "-o", str(target / "worker"), "."], sources)


def _build_c(sources: Path, target: Path) -> None:
    source, library = str(sources / "source.c"), str(target / "source.so")
    _run(["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source, "-ldl"], sources)


def _install_node(sources: Path, target: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise DependencyError("npm is not on the PATH")
    for source in sources.iterdir():
        shutil.copyfile(source, target / source.name)
    _run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], target)


def _built(language: str, build: Callable[[Path, Path], None]) -> Path:
    """Give the folder of what `build` makes of a language's sources, once per text."""
    sources = WORKERS / language
    text = b"".join(path.read_bytes() for path in sorted(sources.iterdir()))
    target = cache_folder() / "workers" / f"{language}-{hashlib.sha256(text).hexdigest()[:16]}"
    with _BUILDING:
        if not target.is_dir():
            _build(build, sources, target)
    return target


def _build(build: Callable[[Path, Path], None], sources: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=target.parent))
    build(sources, work)
    try:
        work.rename(target)
    except OSError:
        # Another process was quicker; what it made is the same.
        shutil.rmtree(work, ignore_errors=True)


def _run(command: list[str], folder: Path) -> str:
    # A toolchain of another release is not to be fetched for this.
    settings = {**os.environ, "GOTOOLCHAIN": "local"}
    done = subprocess.run(
        command, cwd=folder, env=settings, capture_output=True, text=True, check=False, timeout=_BUILD_S
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-500:]
        raise DependencyError(f"`{' '.join(command[:3])}` failed: {said}")
    return done.stdout
