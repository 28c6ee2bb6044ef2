"""Oracle (b): the message formatters that Kafka ships with its console consumer, over a live offsets topic.

They print types 0 and 1 (`OffsetsMessageFormatter`), 2 (`GroupMetadataMessageFormatter`) and, since 4.1,
10 to 15 (`ShareGroupMessageFormatter`), one JSON object a record. The console consumer is told its
partition, so that it joins no group and writes nothing into the topic it reads.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

from rebalance_monitor.cluster.jars.ivy import Coordinate, cache_folder, resolve
from rebalance_monitor.cluster.jars.java import find_java

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TOOLS = "org.apache.kafka.tools.consumer"
UNUSED = ("org.rocksdb", "org.apache.directory.server", "org.apache.directory.api", "org.eclipse.jetty")
TIMEOUT_S = 180
FORMATTED_TYPES = {
    "OffsetsMessageFormatter": (0, 1),
    "GroupMetadataMessageFormatter": (2,),
    "ShareGroupMessageFormatter": (10, 11, 12, 13, 14, 15),
}


def tools(version: str) -> str:
    """Give the class path of Kafka's command-line tools."""
    wanted = [Coordinate("org.apache.kafka", "kafka-tools", version)]
    folder = cache_folder() / "jars" / f"oracle-tools-{version}"
    return os.pathsep.join(map(str, resolve(wanted, folder, excluded=UNUSED)))


def run_tool(version: str, main: str, arguments: Iterable[str]) -> str:
    """Run a tool of Kafka `version` to its end and give what it printed."""
    command = [str(find_java().executable), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", tools(version)]
    command += [f"{TOOLS}.{main}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{main} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def formatted(version: str, bootstrap: str, formatter: str, count: int) -> list[dict[str, Any]]:
    """Give what `formatter` prints of the first `count` records of the topic's partition 0."""
    arguments = ["--bootstrap-server", bootstrap, "--topic", "__consumer_offsets", "--partition", "0"]
    arguments += ["--offset", "earliest", "--max-messages", str(count), "--timeout-ms", "20000"]
    arguments += ["--formatter", f"{TOOLS}.{formatter}"]
    return [_with_type(line) for line in _objects(run_tool(version, "ConsoleConsumer", arguments))]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    # The formatters put nothing between two objects.
    decoder, at = json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        found, at = decoder.raw_decode(text, at)
        yield found


def _with_type(line: dict[str, Any]) -> dict[str, Any]:
    """Name the key's type as 4.x does; 3.9 prints it as `version`."""
    key = line["key"]
    return {**line, "key": {"type": key.get("type", key.get("version")), "data": key["data"]}}
