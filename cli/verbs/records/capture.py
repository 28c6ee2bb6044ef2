"""`rebalance-monitor capture FOLDER`: the offsets topic of a broker into a folder.

Ctrl-C or SIGTERM ends the reading and keeps what was read; a second one gives it up.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.options import config_options, load_settings
from rebalance_monitor.cli.sources import Duration, Progress, connection_options, lacking
from rebalance_monitor.cli.verbs.job.run import stop_on_signals
from rebalance_monitor.coordinator.findings.wording import counted, ranges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rebalance_monitor.cluster.captures.copying import Lacks
    from rebalance_monitor.cluster.clients.reader import Reading


@click.command("capture")
@click.argument("folder", type=click.Path(path_type=Path))
@config_options
@connection_options
@click.option(
    "--from",
    "start",
    default="earliest",
    show_default=True,
    metavar="earliest|latest|OFFSETS",
    help="Where to begin; offsets like 0:12,3:99 or JSON.",
)
@click.option("--until-end", is_flag=True, help="Stop at the ends of the partitions found at the start.")
@click.option("--duration", type=Duration(), help="Stop after this long, e.g. 90s or 10m.")
@click.option("--probe", is_flag=True, help="Also record which groups rebalance, and the ends of the topics.")
def command(
    *,
    folder: Path,
    config: Path | None,
    assignments: tuple[str, ...],
    connection: "Mapping[str, object]",
    start: str,
    until_end: bool,
    duration: float | None,
    probe: bool,
) -> int:
    """Copy the offsets topic from a broker into FOLDER.

    Without --until-end and --duration it goes on until Ctrl-C, and keeps what it has. Ends with 1 where
    partitions are missing, because no broker leads them, or where none answers at the end.
    """
    settings = load_settings(config, assignments, connection)
    from rebalance_monitor.cluster.captures.copying import Extent, copy_topic

    stop = stop_on_signals(keeps=False)
    line = Progress("captured")
    seen: list[Reading] = []
    found: list[Lacks] = []

    def progress(reading: "Reading") -> None:
        seen[:] = [reading]
        line(reading.rows)

    metadata = copy_topic(
        settings.kafka.client_properties(),
        folder,
        Extent(start, until_end, duration, stop, settings.source.skip),
        topic=settings.source.topic,
        probe_interval_s=settings.probe.interval.seconds if probe else None,
        ends_interval_s=settings.ends.interval.seconds if probe and settings.ends.enabled else None,
        progress=progress,
        lacks=found.append,
    )
    line.end()
    rows = seen[0].rows if seen else 0
    read = metadata.partitions - len(metadata.unled)
    click.echo(f"{folder}: {rows:,} records of {counted(read, 'partition')}", err=True)
    if unled := lacking(metadata.topic, metadata.unled):
        click.echo(f"{folder} is not complete: {unled}", err=True)
    for lacks in found:
        click.echo(_said(folder, metadata.topic, lacks), err=True, nl=False)
    if unled or any(lacks.silent or lacks.other for lacks in found):
        return ExitCode.PROBLEMS
    return ExitCode.INTERRUPTED if stop.is_set() and (until_end or duration) else ExitCode.FINE


def _said(folder: Path, topic: str, lacks: "Lacks") -> str:
    """Say what a capture may lack, in lines; "" where it lacks nothing."""
    said = []
    if lacks.unread:
        left = f"up to {counted(lacks.unread, 'record')} that were there at the start"
        said.append(f"{folder} ends before {left}\n")
    if lacks.silent:
        which = f"{counted(len(lacks.silent), 'partition')} of {topic} ({ranges(lacks.silent)})"
        said.append(f"{folder} may lack the newest records: no broker answers for {which}\n")
    if lacks.began_anew is not None:
        why = f"{topic} was made anew, or lost what had been read (partition {lacks.began_anew})"
        said.append(f"{folder} ends where offsets began anew: {why}\n")
    elif lacks.other:
        said.append(f"{folder} may hold records of two topics: {topic} was made anew meanwhile\n")
    return "".join(said)
