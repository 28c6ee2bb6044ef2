"""`rebalance-monitor watch`: what rebalances now, from any machine, without Spark, Java or a storage folder.

Reads the topic to its end, says what it watches, then prints findings as they come, until Ctrl-C or `--for`.
Nothing is written to disk and no alert is sent. Data goes to stdout, everything else to stderr.
"""

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.options import config_options, identities_for, load_settings
from rebalance_monitor.cli.output import Form, output_option
from rebalance_monitor.cli.sources import Duration, Progress, bootstrap_option
from rebalance_monitor.cli.verbs.run import stop_on_signals

if TYPE_CHECKING:
    from rebalance_monitor.engine.embedded.core import Census
    from rebalance_monitor.engine.topic.facts import TopicFacts


@click.command("watch")
@bootstrap_option
@config_options
@click.option("--for", "duration", type=Duration(), help="Stop after so long (30s, 10m); default: Ctrl-C.")
@output_option(Form.TABLE, Form.TABLE, Form.JSONL)
def command(
    *,
    bootstrap: str | None,
    config: Path | None,
    assignments: tuple[str, ...],
    duration: float | None,
    output: Form,
) -> int:
    """See what rebalances now: no Spark, no Java, nothing written."""
    settings = load_settings(config, assignments, {"kafka.bootstrap_servers": bootstrap})
    from rebalance_monitor.engine.embedded.watching import watch
    from rebalance_monitor.engine.outputs.console import renderer, writer
    from rebalance_monitor.engine.outputs.sinks import Lines

    stop = stop_on_signals()
    if duration is not None:
        timer = threading.Timer(duration, stop.set)
        timer.daemon = True
        timer.start()
    lines = Lines(renderer(output.value, sys.stdout), writer(sys.stdout))
    try:
        seen = watch(settings, identities_for(settings), [lines], _Told(), stop, most=40e6)
    finally:
        lines.close()
    kinds = ", ".join(f"{count} {kind}" for kind, count in seen.kinds.most_common()) or "no findings"
    click.echo(f"watched {seen.records:,} records: {kinds}", err=True)
    return ExitCode.FINE


class _Told:
    """Says on stderr how it goes."""

    def __init__(self) -> None:
        self._progress: Progress | None = None

    def begins(self, facts: "TopicFacts") -> None:
        records = sum(end - facts.begins.get(p, 0) for p, end in facts.ends.items())
        click.echo(f"reading up to {records:,} records of {facts.name}", err=True)
        self._progress = Progress("read", records)

    def reads(self, records: int) -> None:
        if self._progress:
            self._progress(records)

    def follows(self, census: "Census", url: str | None) -> None:
        if self._progress:
            self._progress.end()
        days = census.oldest_ms / 86_400_000
        click.echo(
            f"{census.partitions} partitions, {census.groups} groups, {census.with_members} with members; "
            f"the topic goes back {days:.1f} days" + (f"; {url}" if url else ""),
            err=True,
        )
