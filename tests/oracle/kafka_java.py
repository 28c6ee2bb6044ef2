"""Kafka's own classes as the oracle: fetches the jars, compiles the programs beside this file, runs them.

Needs a JDK (17 or 21) and, the first time, Maven Central; `DependencyError` says which is missing.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.jars.ivy import Coordinate, cache_folder, resolve
from rebalance_monitor.cluster.jars.java import find_java

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SOURCES = Path(__file__).parent
TIMEOUT_S = 900
# Servers and native libraries that the serialisation classes do not touch: 100 MB.
UNUSED = ("org.rocksdb", "org.eclipse.jetty", "org.eclipse.jetty.ee10", "org.glassfish.jersey.containers")


@dataclass(frozen=True, slots=True)
class Program:
    """A Java program of this folder and the Kafka it speaks for."""

    main: str
    sources: tuple[str, ...]
    packages: tuple[Coordinate, ...]

    @property
    def kafka(self) -> str:
        """The Kafka version whose word this is."""
        return self.packages[0].version

    def jars(self) -> list[Path]:
        """Give the jars, fetched once into the cache."""
        folder = cache_folder() / "jars" / f"oracle-{self.main.lower()}-{self.kafka}"
        return resolve(self.packages, folder, excluded=UNUSED)

    def jar(self, name: str) -> Path:
        """Give the jar of the artifact `name`."""
        return next(jar for jar in self.jars() if jar.name == f"{name}-{self.kafka}.jar")


def _kafka(name: str, version: str) -> Coordinate:
    return Coordinate("org.apache.kafka", name, version)


RECORDS = Program(
    "CorpusOracle", ("CorpusOracle.java", "Variants.java"), (_kafka("kafka-group-coordinator", "4.4.0"),)
)
OLDER_RELEASES = ("4.1.1", "4.2.0", "4.3.1")


def records_of(version: str) -> Program:
    """Give the oracle of records as an older release; before 4.1 its classes lie elsewhere."""
    return replace(RECORDS, packages=(_kafka("kafka-group-coordinator", version),))


EMBEDDED = Program(
    "EmbeddedOracle",
    ("EmbeddedOracle.java",),
    (_kafka("kafka-streams", "4.3.1"), _kafka("connect-runtime", "4.3.1")),
)


def run(program: Program, *arguments: str, lines: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Compile and run `program` with `lines` as its input; give the JSON objects it prints, one per line."""
    java = find_java(jdk=True)
    jars = ":".join(map(str, program.jars()))
    with tempfile.TemporaryDirectory(prefix="oracle-") as classes:
        sources = [str(SOURCES / name) for name in program.sources]
        _checked([str(java.home / "bin" / "javac"), "-cp", jars, "-d", classes, *sources])
        command = [str(java.executable), "-Xmx1g", "-cp", f"{classes}:{jars}", program.main, *arguments]
        output = _checked(command, "".join(f"{line}\n" for line in lines))
    return list(_objects(output))


def _checked(command: list[str], text: str = "") -> str:
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} failed:\n{done.stderr[-4000:]}")
    return done.stdout


def _objects(output: str) -> Iterator[dict[str, Any]]:
    # Not splitlines(): Kafka's strings may hold U+2028, which is no end of line in JSON lines.
    return (json.loads(line) for line in output.split("\n") if line)
