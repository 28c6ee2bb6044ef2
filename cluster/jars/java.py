"""Which Java to start Spark, Ivy and lab brokers with.

Spark 4.0 and Kafka 4.x run on Java 17 and 21; the Hadoop inside Spark 4.0 does not start on newer ones.
Searches JAVA_HOME, the PATH and the usual places, in that order; refuses anything but 17 and 21.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_monitor.cluster.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SUPPORTED = (17, 21)
USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/*jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk@*",
    "/usr/local/opt/openjdk@*",
    "~/.sdkman/candidates/java/*",
)
_VERSION = re.compile(r'"?(?:1\.)?(\d+)[\d._+\-a-zA-Z]*"?')


@dataclass(frozen=True, slots=True)
class Java:
    """One installed Java: its home folder, major version, and whether it can compile (a JDK)."""

    home: Path
    major: int
    is_jdk: bool

    @property
    def executable(self) -> Path:
        """The `java` launcher."""
        return self.home / "bin" / "java"

    def environment(self) -> dict[str, str]:
        """Give the environment of the running process with JAVA_HOME and PATH set to this Java."""
        path = os.pathsep.join([str(self.home / "bin"), os.environ.get("PATH", "")])
        return {**os.environ, "JAVA_HOME": str(self.home), "PATH": path}


def find_java(*, jdk: bool = False) -> Java:
    """Give the first fitting Java; with `jdk`, one that can run single-file sources.

    Raises DependencyError that lists what was found and which package to install.
    """
    return choose(_installed(), jdk=jdk)


def choose(installed: Iterable[Java], *, jdk: bool = False) -> Java:
    """Give the first of `installed` that fits; DependencyError when none does."""
    seen = list(installed)
    fitting = [java for java in seen if java.major in SUPPORTED and (java.is_jdk or not jdk)]
    if fitting:
        return fitting[0]
    raise DependencyError(_complaint(seen, jdk=jdk), _packages(jdk=jdk))


def _complaint(seen: list[Java], *, jdk: bool) -> str:
    need = "A Java 17 or 21 development kit (JDK)" if jdk else "Java 17 or 21"
    if not seen:
        return f"{need} is needed, and no Java is installed."
    found = ", ".join(
        f"{java.major} ({'JDK' if java.is_jdk else 'runtime only'}, {java.home})" for java in seen
    )
    return f"{need} is needed; found only: {found}."


def _packages(*, jdk: bool) -> str:
    debian, fedora = ("jdk-headless", "-devel") if jdk else ("jre-headless", "-headless")
    return (
        f"Install one: Debian/Ubuntu `apt install openjdk-17-{debian}`, "
        f"Fedora `dnf install java-21-openjdk{fedora}`, macOS `brew install openjdk@17`; "
        "or set JAVA_HOME to one."
    )


@cache
def _installed() -> tuple[Java, ...]:
    homes = dict.fromkeys(home.resolve() for home in _homes(os.environ))
    return tuple(java for home in homes if (java := inspect(home)) is not None)


def _homes(environment: Mapping[str, str]) -> Iterator[Path]:
    if named := environment.get("JAVA_HOME"):
        yield Path(named)
    if on_path := shutil.which("java", path=environment.get("PATH")):
        yield Path(on_path).resolve().parent.parent
    yield from _usual_homes()


def _usual_homes() -> Iterator[Path]:
    # For a user without a home folder `~` stays as it is, and nothing is there.
    patterns = (Path(os.path.expanduser(place)) for place in USUAL_PLACES)  # noqa: PTH111 - the other one raises
    return chain.from_iterable(
        sorted(pattern.parent.glob(pattern.name))
        if "*" not in str(pattern.parent)
        else sorted(Path("/").glob(str(pattern).lstrip("/")))
        for pattern in patterns
    )


def inspect(home: Path) -> Java | None:
    """Read the version of the Java in `home`; None if there is none that starts."""
    launcher = home / "bin" / "java"
    if not os.access(launcher, os.X_OK):
        return None
    major = _from_release_file(home) or _from_launcher(launcher)
    return None if major is None else Java(home, major, (home / "bin" / "javac").exists())


def major_version(text: str) -> int | None:
    """Give 17 for `17.0.15`, 8 for `1.8.0_302`; None where no version stands."""
    match = _VERSION.match(text.strip())
    return int(match[1]) if match else None


def _from_release_file(home: Path) -> int | None:
    # Every JDK since 9 carries this file: reading it spares a JVM start.
    try:
        lines = (home / "release").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    versions = (line.partition("=")[2] for line in lines if line.startswith("JAVA_VERSION="))
    return next((major_version(version) for version in versions), None)


def _from_launcher(launcher: Path) -> int | None:
    try:
        done = subprocess.run(
            [str(launcher), "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version ("[^"]+")', done.stderr)
    return major_version(match[1]) if match else None
