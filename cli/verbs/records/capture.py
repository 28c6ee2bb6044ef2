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
    silent, unread = list[int](), 0

    def progress(reading: "Reading") -> None:
        seen[:] = [reading]
        line(reading.rows)

    def lacks(partitions: list[int], offsets: int) -> None:
        nonlocal silent, unread
        silent, unread = partitions, offsets

    metadata = copy_topic(
        settings.kafka.client_properties(),
        folder,
        Extent(start, until_end, duration, stop, settings.source.skip),
        topic=settings.source.topic,
        probe_interval_s=settings.probe.interval.seconds if probe else None,
        ends_interval_s=settings.ends.interval.seconds if probe and settings.ends.enabled else None,
        progress=progress,
        lacks=lacks,
    )
    line.end()
    rows = seen[0].rows if seen else 0
    read = metadata.partitions - len(metadata.unled)
    click.echo(f"{folder}: {rows:,} records of {counted(read, 'partition')}", err=True)
    if unled := lacking(metadata.topic, metadata.unled):
        click.echo(f"{folder} is not complete: {unled}", err=True)
    if unread:
        left = f"up to {counted(unread, 'record')} that were there at the start"
        click.echo(f"{folder} ends before {left}", err=True)
    if silent:
        which = f"{counted(len(silent), 'partition')} of {metadata.topic} ({ranges(silent)})"
        click.echo(f"{folder} may lack the newest records: no broker answers for {which}", err=True)
    if unled or silent:
        return ExitCode.PROBLEMS
    return ExitCode.INTERRUPTED if stop.is_set() and (until_end or duration) else ExitCode.FINE
