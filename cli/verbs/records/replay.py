"""`rebalance-monitor replay`: what the job would have found in a capture or a broker's topic, without Spark.

A broker's topic is copied into a temporary capture first, up to the ends found at the start. Findings go to
stdout as they come; exit code 0 whatever they say.
"""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.options import config_options, identities_for, load_settings
from rebalance_monitor.cli.output import Form, output_option, write_rows
from rebalance_monitor.cli.sources import (
    Progress,
    capture_option,
    connection_options,
    group_option,
    is_about,
    is_like,
    lacking,
    span_of,
)
from rebalance_monitor.coordinator.findings.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rebalance_monitor.cluster.clients.reader import Reading
    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.engine.batch.batches import Batch


@click.command("replay")
@capture_option
@config_options
@connection_options
@click.option(
    "--history-until",
    metavar="OFFSETS|TIME",
    help="Records before it are history: 0:12,3:99, JSON, or a time (ISO 8601, UTC). Default: all is live.",
)
@group_option
@click.option("--alerts", is_flag=True, help="List the notifications that would have been sent, instead.")
@output_option(Form.TABLE)
def command(
    *,
    capture: Path | None,
    config: Path | None,
    assignments: tuple[str, ...],
    connection: "Mapping[str, object]",
    history_until: str | None,
    pattern: str,
    alerts: bool,
    output: Form,
) -> int:
    """Find in a capture (or a broker's topic), without Spark, what the job would have found."""
    settings = load_settings(config, assignments, connection)
    with _given(capture) if capture else _copied(settings) as path:
        _replay(path, settings, history_until, output, pattern, alerts=alerts)
    return ExitCode.FINE


def _replay(
    path: Path, settings: "Settings", history_until: str | None, output: Form, pattern: str, *, alerts: bool
) -> None:
    from rebalance_monitor.cluster.captures.capture import read_capture
    from rebalance_monitor.engine.replay.history_bounds import history_ends
    from rebalance_monitor.engine.replay.replaying import replay_capture
    from rebalance_monitor.engine.settings import detection_settings

    capture = read_capture(path)
    detection = detection_settings(settings.detection, capture.metadata)
    ends = history_ends(capture, history_until) if history_until else None
    progress, done, began = Progress("replayed", capture.rows), 0, time.monotonic()
    unreadable: Counter[str] = Counter()
    is_known = pattern == "*"

    def count(rows: int) -> None:
        nonlocal done
        done += rows
        progress(done)

    def watch(_now: int, batch: "Batch", _found: "list[Finding]") -> None:
        nonlocal is_known
        is_known = is_known or any(is_like(group, pattern) for group in batch.groups)

    findings = replay_capture(
        path,
        detection,
        history_until=ends,
        progress=count,
        watch=None if is_known else watch,
        unreadable=unreadable,
    )
    if settings.cluster_name:
        findings = (replace(finding, cluster=settings.cluster_name) for finding in findings)
    findings = map(identities_for(settings).finding, findings)
    if pattern != "*":
        findings = (finding for finding in findings if is_about(finding, pattern))
    written = write_notifications(findings, settings, output) if alerts else write_findings(findings, output)
    progress.end()
    took = time.monotonic() - began
    what = "notifications" if alerts else "findings"
    summary = f"{written:,} {what} in {done:,} records, {done / max(took, 0.001):,.0f} records/s"
    click.echo(summary + ("" if capture.sightings else ", without probe samples"), err=True)
    for reason, number in unreadable.most_common():
        click.echo(f"{counted(number, 'record')} could not be read, as `decode` shows: {reason}", err=True)
    if not is_known:
        click.echo(f"No group is like the pattern of `--group`: {pattern}", err=True)
    if lacks := lacking(capture.metadata.topic, capture.metadata.unled):
        click.echo(f"nothing is known of their groups: {lacks}", err=True)


def write_notifications(findings: "Iterable[Finding]", settings: "Settings", output: Form) -> int:
    """Write the notifications that the findings would have led to; return their number."""
    from rebalance_monitor.alerts.dispatch.rehearsal import rehearse
    from rebalance_monitor.alerts.messages.text import moment
    from rebalance_monitor.alerts.runtime.journal import entry
    from rebalance_monitor.cli.verbs.alerting.preview import rehearsal_plan

    rows = [entry(outgoing, at) for at, outgoing in rehearse(rehearsal_plan(settings), findings)]
    if output.is_table:
        rows = [{**row, "at": moment(row["at"])} for row in rows]
    write_rows(rows, output, ("at", "receiver", "phase", "reason", "firing", "resolved", "title"))
    return len(rows)


def write_findings(findings: "Iterable[Finding]", output: Form) -> int:
    """Write findings to stdout, lines as they come or one JSON document; return their number."""
    from rebalance_monitor.coordinator.findings.finding import to_dict
    from rebalance_monitor.engine.outputs.console import renderer, writer

    if output is Form.JSON:
        rows = [to_dict(finding) for finding in findings]
        write_rows(rows, output)
        return len(rows)
    render, write = renderer(output.value, sys.stdout), writer(sys.stdout)
    number = 0
    for finding in findings:
        write(render(finding) + "\n")
        number += 1
    return number


@contextmanager
def _given(path: Path) -> Iterator[Path]:
    yield path


@contextmanager
def _copied(settings: "Settings") -> Iterator[Path]:
    """Copy the broker's topic as it is now into a temporary capture."""
    from rebalance_monitor.cluster.captures.copying import Extent, copy_topic

    progress: list[Progress] = []

    def show(reading: "Reading") -> None:
        if not progress:
            progress.append(Progress("read", span_of(reading)))
        progress[0](reading.rows)

    with tempfile.TemporaryDirectory(prefix="rebalance-monitor-replay-") as folder:
        path = Path(folder) / "capture"
        properties, topic = settings.kafka.client_properties(), settings.source.topic
        extent = Extent(until_end=True, skip=settings.source.skip)
        copy_topic(properties, path, extent, topic=topic, progress=show)
        for one in progress:
            one.end()
        yield path
