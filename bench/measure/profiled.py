r"""Where the CPU of a profiled job goes, by what stands on the stack: shares of the samples, largest first.

Takes a recording of Java Flight Recorder (`.jfr`, read with the JDK's `jfr`) or folded stacks of a sampling
profiler for Python, one a line with its count last, as py-spy writes them (`--format raw`). A sample counts
for the first of the patterns below that a frame of its stack holds.

    python -m bench.job.steady --warm 60 --conf "spark.driver.extraJavaOptions=-XX:+UseParallelGC \
      -XX:StartFlightRecording=delay=90s,duration=60s,filename=steady.jfr,settings=profile"
    python -m bench.measure.profiled steady.jfr
    py-spy record --subprocesses --duration 60 --rate 100 --format raw --output steady.raw --pid PID
    python -m bench.measure.profiled steady.raw
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

JVM = {
    "rows to Arrow": r"ArrowWriter|arrow\.vector|ArrowFieldWriter",
    "records to rows": r"KafkaRecordTo|UnsafeProjection|KafkaBatchPartitionReader\.get",
    "fetching from the brokers": r"apache\.kafka|kafka010",
    "the state store": r"RocksDB|StateStore",
    "the Arrow stream to and from Python": r"PythonRunner|api\.python|execution\.python|ArrowStream",
    "shuffle": r"shuffle",
    "results to the driver's Python, calls of it": r"py4j|razorvine|toPython",
    "Spark's log of offsets and commits": r"OffsetSeqLog|MetadataLog|CheckpointFileManager|CommitLog",
    "planning": r"catalyst|QueryExecution|IncrementalExecution|SparkPlan|execution\.streaming",
    "scheduling, tasks": r"scheduler|executor|rpc|spark\.util|storage\.Block|broadcast|SparkContext",
}
PYTHON = {
    "worker: decoding": r"decode_batches \(",
    "worker: reading and writing the state": r"decode_state|encode_state|decode_lane|encode_lane|_decode \(",
    "worker: folding and judging": r"step \(engine",
    "worker: the rest of a task": r"worker \(pyspark|daemon\.py",
    "driver: reading the operator's rows": r"read_batch|collect \(pyspark",
    "driver: publication a batch": r"writer\.py",
    "driver: keeping tables": r"keeper\.py|table_upkeep|_keep_groups",
    "driver: looking at the brokers": r"probe\.py|asking\.py|kafka/|broker_val|topic\.py|admin\.py",
    "driver: page and metrics": r"uvicorn|dashboard/web|metrics",
    "driver: watching the query": r"streaming/query\.py|py4j|speaking",
}
# Threads that wait are on some stacks without costing anything.
WAITS = re.compile(r"[;. ](wait|select|poll|accept|readinto|_worker|run|observe) \([^;]*$")


def jvm_stacks(path: Path) -> Iterator[tuple[str, int]]:
    """Yield each sample of a recording as one line of its frames."""
    command = ["jfr", "print", "--events", "jdk.ExecutionSample", "--stack-depth", "64", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for sample in text.split("jdk.ExecutionSample {")[1:]:
        yield " ".join(sample.split("stackTrace = [")[-1].split()), 1


def python_stacks(path: Path) -> Iterator[tuple[str, int]]:
    """Yield each stack and how often it was seen, but for threads that wait."""
    for line in path.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        if not WAITS.search(stack) and "measure/trees.py" not in stack:
            yield stack, int(count)


def shares(path: Path) -> Counter[str]:
    """Count the samples of a profile by what is on the stack."""
    is_jvm = path.suffix == ".jfr"
    found: Counter[str] = Counter()
    for stack, count in jvm_stacks(path) if is_jvm else python_stacks(path):
        what = (name for name, held in (JVM if is_jvm else PYTHON).items() if re.search(held, stack))
        found[next(what, "the rest")] += count
    return found


def main() -> None:
    """Print the shares of one profile."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("profile", type=Path)
    found = shares(parser.parse_args().profile)
    for name, count in found.most_common():
        print(f"{count / found.total():6.1%}  {name}")
    print(f"{found.total()} samples")


if __name__ == "__main__":
    main()
