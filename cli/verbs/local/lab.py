"""`rebalance-monitor lab up|status|down`: a real Kafka on this machine, from jars fetched once."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import click

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.output import Form, output_option, write_rows

NODES = ("node", "bootstrap", "pid", "running", "version", "coordinator_log")


def default_folder() -> Path:
    """Give the folder of the lab that nobody named: $XDG_STATE_HOME/rebalance-monitor/lab."""
    from rebalance_monitor.config.paths import expanded

    return expanded(os.environ.get("XDG_STATE_HOME") or "~/.local/state") / "rebalance-monitor" / "lab"


folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=default_folder,
    help="Where the lab keeps its data and logs (default: in your state folder).",
)


@click.group()
def command() -> None:
    """Start and stop a real Kafka broker on this machine."""


@command.command()
@folder_option
@click.option("--kafka-version", default="4.1.1", show_default=True, help="The broker's release.")
@click.option(
    "--port",
    default=0,
    type=click.IntRange(0, 65_535),
    help="The port (of the first node); a free one by default.",
)
@click.option("--brokers", default=1, show_default=True, type=click.IntRange(1, 5), help="How many nodes.")
@click.option(
    "--offsets-partitions",
    default=50,
    show_default=True,
    type=click.IntRange(1),
    help="Partitions of __consumer_offsets.",
)
@click.option(
    "--initial-delay-ms",
    default=0,
    type=click.IntRange(0),
    show_default=True,
    help="group.initial.rebalance.delay.ms.",
)
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Any broker property.")
@output_option(Form.TABLE)
def up(
    folder: Path,
    kafka_version: str,
    port: int,
    brokers: int,
    offsets_partitions: int,
    initial_delay_ms: int,
    assignments: tuple[str, ...],
    output: Form,
) -> None:
    """Start a broker that stays until `lab down`; say what runs already."""
    from rebalance_monitor.lab.cluster import broker as lab

    # An orderly `kill` midway cleans up as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if (found := lab.running(folder)) is not None:
        click.echo("A lab runs already; `rebalance-monitor lab down` stops it.", err=True)
    else:
        click.echo(f"Starting Kafka {kafka_version} in {folder} …", err=True)
        found = lab.up(
            lab.LabBroker(
                kafka_version,
                folder,
                port=port,
                nodes=brokers,
                offsets_partitions=offsets_partitions,
                initial_delay_ms=initial_delay_ms,
                settings=_settings(assignments),
            )
        )
    _show(found.state(), output)


@command.command()
@folder_option
@output_option(Form.TABLE)
def status(folder: Path, output: Form) -> int:
    """Say what runs; exit code 1 if nothing does."""
    from rebalance_monitor.lab.cluster import broker as lab

    if (found := lab.running(folder)) is None:
        click.echo("No lab runs.", err=True)
        return ExitCode.PROBLEMS
    _show(found.state(), output)
    return ExitCode.FINE


@command.command()
@folder_option
@click.option("--keep-data", is_flag=True, help="Keep the broker's data and logs for the next `lab up`.")
def down(folder: Path, *, keep_data: bool) -> None:
    """Stop the broker and remove its data; nothing to stop is fine."""
    from rebalance_monitor.lab.cluster import broker as lab

    stopped = lab.down(folder, keep_data=keep_data)
    click.echo("Stopped." if stopped else "No lab ran.", err=True)


def _settings(assignments: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in assignments]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise click.BadParameter(f"{key!r} is not KEY=VALUE", param_hint="--set")
    return {key: value for key, _, value in pairs}


def _show(state: Mapping[str, object], output: Form) -> None:
    common = {"bootstrap": state["bootstrap"], "version": state["version"]}
    nodes = state["nodes"]
    rows = [{**common, **node} for node in nodes] if isinstance(nodes, list) else []
    write_rows(rows, output, NODES if output.is_table else None)
