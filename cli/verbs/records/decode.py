"""`rebalance-monitor decode`: records of the offsets topic as JSON lines, from a capture or a broker.

One line per record, in the file's order; what cannot be read has an `error` and its raw bytes, and does not
stop the run. Ends with 1 where a record could not be read (a type from the future is no such error), and
where partitions have no leader.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.options import config_options, load_settings
from rebalance_monitor.cli.sources import (
    Progress,
    absolute,
    capture_option,
    connection_options,
    group_option,
    is_like,
    lacking,
    moment_option,
    span_of,
)
from rebalance_monitor.cli.verbs.job.run import stop_on_signals
from rebalance_monitor.coordinator.findings.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TextIO

    import pyarrow as pa

    from rebalance_monitor.config.model import Settings

Record = tuple[int, int, int, bytes | None, bytes | None]
Opened = tuple[Iterable["pa.RecordBatch"], int | None, str]
"""Records, how many there are at most, and a sentence on partitions that there is nothing of, or ""."""
UNKNOWN_TYPE = "unknown_type"


@click.command("decode")
@capture_option
@config_options
@connection_options
@click.option(
    "--from",
    "start",
    default="earliest",
    show_default=True,
    metavar="earliest|latest|OFFSETS",
    help="Where to begin at a broker; offsets like 0:12,3:99 or JSON.",
)
@click.option("--follow", is_flag=True, help="At a broker: continue with new records, until Ctrl-C.")
@group_option
@click.option(
    "--partition", type=int, multiple=True, help="Only this partition of the topic; may be repeated."
)
@moment_option("--since", "Only records not older than: 1h (ago), a time (ISO 8601, UTC), or ms.")
@click.option("--expand", is_flag=True, help="Also decode the subscriptions and assignments inside.")
def command(
    *,
    capture: Path | None,
    config: Path | None,
    assignments: tuple[str, ...],
    connection: "Mapping[str, object]",
    start: str,
    follow: bool,
    pattern: str,
    partition: tuple[int, ...],
    since: int | None,
    expand: bool,
) -> int:
    """Print the records of a capture or a broker as JSON lines."""
    settings = load_settings(config, assignments, connection)
    parts = frozenset(partition)
    opened = _from_capture(capture) if capture else _from_broker(settings, start, parts, follow=follow)
    only = Only(pattern, parts, absolute(since, time.time_ns() // 1_000_000))
    with opened as (batches, total, lacks):
        progress = Progress("decoded", total)
        written, failures = write_lines(batches, sys.stdout, progress, only, expand=expand)
        progress.end()
    if not written:
        click.echo(f"nothing to print in {counted(progress.done, 'record')}", err=True)
    for reason, count in failures.most_common():
        click.echo(f"{counted(count, 'record')} could not be read: {reason}", err=True)
    if lacks:
        click.echo(f"Not all records were read: {lacks}.", err=True)
    return ExitCode.PROBLEMS if lacks or set(failures) - {UNKNOWN_TYPE} else ExitCode.FINE


@dataclass(frozen=True, slots=True)
class Only:
    """Which records: of groups like `pattern`, of these partitions (none: all), not older than `since` ms.

    Records of Kafka's oldest format have no time, which is -1.
    """

    pattern: str = "*"
    partitions: frozenset[int] = frozenset()
    since: int | None = None

    def reads(self, record: Record) -> bool:
        """Whether a record's place and time are wanted."""
        partition, _, stamp, *_ = record
        is_old = self.since is not None and stamp < self.since
        return not is_old and (not self.partitions or partition in self.partitions)

    def shows(self, line: "Mapping[str, Any]") -> bool:
        """Whether a record's group is wanted; one whose key cannot be read is of no group."""
        if self.pattern == "*":
            return True
        named = (line["key"] or {}).get("data") or {}
        # Keys of commits and classic groups name it otherwise than those of epoch-based groups.
        group = named.get("group", named.get("groupId"))
        return group is not None and is_like(group, self.pattern)


def write_lines(
    batches: Iterable["pa.RecordBatch"],
    out: "TextIO",
    progress: Progress,
    only: Only = Only(),
    *,
    expand: bool,
) -> tuple[int, Counter[str]]:
    """Write a line per record, batch by batch; return how many, and how many were unreadable, by reason."""
    from rebalance_monitor.decoders import json_form
    from rebalance_monitor.engine.outputs.console import safe_json

    failures: Counter[str] = Counter()
    done = written = 0
    for batch in batches:
        for record in filter(only.reads, records(batch)):
            line = json_form.record_json(*record, expanded=expand)
            if not only.shows(line):
                continue
            if error := line["error"]:
                failures[error["reason"]] += 1  # type: ignore[index] # an error is an object
            out.write(safe_json(json_form.to_line(line)) + "\n")
            written += 1
        out.flush()
        done += batch.num_rows
        progress(done)
    return written, failures


def records(batch: "pa.RecordBatch") -> Iterator[Record]:
    """Yield (partition, offset, timestamp in ms, key, value) of a batch in the capture's columns."""
    stamps = batch.column("timestamp").cast("int64").to_pylist()
    places = (batch.column("partition").to_pylist(), batch.column("offset").to_pylist())
    return zip(
        *places, stamps, batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True
    )


@contextmanager
def _from_capture(path: Path) -> Iterator[Opened]:
    from rebalance_monitor.cluster.captures.capture import read_capture

    found = read_capture(path)
    yield found.batches(), found.rows, lacking(found.metadata.topic, found.metadata.unled)


@contextmanager
def _from_broker(
    settings: "Settings", start: str, partitions: frozenset[int], *, follow: bool
) -> Iterator[Opened]:
    from rebalance_monitor.cluster.captures.copying import Extent, open_reading, unread
    from rebalance_monitor.cluster.clients.admin import ClusterAdmin
    from rebalance_monitor.cluster.clients.reader import read_records

    properties, topic = settings.kafka.client_properties(), settings.source.topic
    extent = Extent(start, until_end=not follow, stop=stop_on_signals(keeps=False), skip=settings.source.skip)
    with ClusterAdmin(properties) as admin:
        found, reading = open_reading(admin, extent, topic)
    unled = [part for part in unread(found, reading) if not partitions or part in partitions]
    if partitions:
        reading.start = {part: at for part, at in reading.start.items() if part in partitions}
        reading.until = reading.until and {
            part: at for part, at in reading.until.items() if part in partitions
        }
    yield read_records(properties, reading, topic), span_of(reading), lacking(topic, unled)
