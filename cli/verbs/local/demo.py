"""`rebalance-monitor demo`: a real Kafka, consumers at fault, and what the monitor says about them, live."""

import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.output import Form, output_option
from rebalance_monitor.cli.sources import Duration

if TYPE_CHECKING:
    from rebalance_monitor.coordinator.findings.finding import Finding
    from rebalance_monitor.lab.cluster.broker import LabBroker
    from rebalance_monitor.lab.scoring.judge import Verdict
    from rebalance_monitor.lab.suite.demo import Stage

LOOK_S = 0.3


@click.command()
@click.option(
    "--duration",
    type=Duration(least_s=1),
    default="150s",
    show_default=True,
    help="How long to wait for what the monitor finds.",
)
@click.option("--keep", is_flag=True, help="Leave the broker up (`rebalance-monitor lab down` stops it).")
@click.option("--kafka-version", default="4.1.1", show_default=True, help="The broker's release.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep data and logs in this folder; it must be new or empty. Default: a temporary one.",
)
@click.option(
    "--slack-webhook",
    metavar="URL",
    envvar="SLACK_WEBHOOK_URL",
    help="Notify this incoming webhook of Slack, too (or $SLACK_WEBHOOK_URL).",
)
@output_option(Form.TABLE, Form.TABLE, Form.JSONL)
def command(
    duration: float,
    *,
    keep: bool,
    kafka_version: str,
    folder: Path | None,
    slack_webhook: str | None,
    output: Form,
) -> int:
    """Show a local Kafka with faulty consumers, and what the monitor says about them."""
    # An orderly `kill` cleans up as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as stack:
        home = folder or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="rebalance-monitor-demo-"))
        )
        broker = _broker(stack, kafka_version, home, keep=keep)
        return _play(stack, broker, home, duration, output, _alerts(stack, slack_webhook))


def _alerts(stack: ExitStack, url: str | None) -> dict[str, object] | None:
    """Return the configuration that tells a Slack webhook; the address lies in a file that goes with us."""
    if url is None:
        return None
    file = stack.enter_context(tempfile.NamedTemporaryFile("w", prefix="rebalance-monitor-"))  # noqa: SIM115 - it is one
    file.write(url)
    file.flush()
    return {
        "receivers": [{"name": "slack", "slack": {"webhook_url_file": file.name}}],
        # Nobody who watches a demo waits for a minute.
        "route": {"receiver": "slack", "group_wait": "2s", "group_interval": "10s"},
        "hold": "30s",
    }


def _broker(stack: ExitStack, version: str, home: Path, *, keep: bool) -> "LabBroker":
    from rebalance_monitor.cli.verbs.local.lab import default_folder
    from rebalance_monitor.cluster.errors import DependencyError
    from rebalance_monitor.lab.cluster import broker as lab

    _say(f"Starting Kafka {version} …")
    # Kafka's own default delay, so that groups whose members start together start once.
    if not keep:
        return stack.enter_context(lab.LabBroker(version, home / "broker", initial_delay_ms=3_000))
    if lab.running(default_folder()) is not None:
        raise DependencyError("A lab broker runs already.", "Stop it first: rebalance-monitor lab down")
    return lab.up(lab.LabBroker(version, default_folder(), initial_delay_ms=3_000))


def _play(
    stack: ExitStack,
    broker: "LabBroker",
    home: Path,
    duration: float,
    output: Form,
    alerts: dict[str, object] | None,
) -> int:
    from rebalance_monitor.engine.outputs.console import renderer
    from rebalance_monitor.lab.suite.demo import stage

    render = renderer("jsonl" if output is Form.JSONL else "console", sys.stdout)
    began = time.monotonic()
    _say(f"Kafka is up at {broker.bootstrap}. Starting the monitor (Spark needs some seconds) …")
    with ExitStack() as acts:
        play = stage(broker, home, acts, alerts)
        _say(f"The monitor is running. Starting consumers in {len(play.runs)} groups; findings follow.")
        page = play.job.page()
        _say(f"Its page: {page}/\n" if page else "Its page is not served: the port is taken.\n")
        _follow(play, duration, lambda finding: click.echo(render(finding)))
        verdicts, noise = play.verdicts(), play.noise()
        missing = play.planned() - len(verdicts)
        _say(f"\nStopping consumers and monitor, {time.monotonic() - began:.0f} s after Kafka was up …")
    stack.callback(_summary, verdicts, noise, play, output)
    good = all(one.finding for one in verdicts) and not missing and not noise
    return ExitCode.FINE if good else ExitCode.PROBLEMS


def _follow(play: "Stage", duration: float, show: Callable[["Finding"], None]) -> None:
    announced: set[tuple[str, int]] = set()
    deadline = time.monotonic() + duration
    while time.monotonic() < deadline:
        _announce(play, announced)
        for finding in play.news():
            show(finding)
        if play.complete():
            return
        time.sleep(LOOK_S)


def _announce(play: "Stage", announced: set[tuple[str, int]]) -> None:
    for run in play.runs:
        for number, done in enumerate(list(run.done)):
            if (run.group, number) not in announced:
                announced.add((run.group, number))
                at = time.strftime("%H:%M:%S", time.gmtime(done.at / 1000))
                _say(f"{at}  injected  {run.group}  {done.verb} {', '.join(done.who)}", dim=True)


def _summary(verdicts: list["Verdict"], noise: list["Finding"], play: "Stage", output: Form) -> None:
    rows = [_row(verdict) for verdict in verdicts]
    rows += [
        {
            "group": run.group,
            "injected": "nothing",
            "expected": "silence",
            "detected": _silence(run.group, noise),
        }
        for run in play.runs
        if run.scenario.silent
    ]
    costs = _costs(play.found)
    if output is Form.JSONL:
        for row in rows:
            click.echo(json.dumps({"summary": row}))
        for cost in costs:
            click.echo(json.dumps({"cost": cost}))
        return
    from rebalance_monitor.cli.output import write_table

    click.echo()
    write_table(rows, ("group", "injected", "expected", "detected", "after"), sys.stdout)
    missed = sum(not verdict.finding for verdict in verdicts) + play.planned() - len(verdicts)
    if costs:
        click.echo("\nWhat rebalances cost, as far as the groups have caught up:")
        write_table(costs, None, sys.stdout)
    click.echo(_closing(len(verdicts), missed, noise))


def _costs(found: list["Finding"]) -> list[dict[str, object]]:
    """Return by group what its rebalances cost."""
    from rebalance_monitor.coordinator.findings.kinds import Kind

    costs: dict[str, list[Finding]] = {}
    for finding in found:
        if finding.kind is Kind.REBALANCE_COST:
            costs.setdefault(finding.group or "", []).append(finding)
    return [_cost(group, findings) for group, findings in sorted(costs.items())]


def _cost(group: str, findings: list["Finding"]) -> dict[str, object]:
    def total(key: str) -> int:
        return sum(int(finding.details.get(key, 0)) for finding in findings)

    return {
        "group": group,
        "rebalances": total("rebalances"),
        "stood still": f"{sum(finding.stopped_ms_max or 0 for finding in findings) / 1000:.1f} s",
        "records arrived meanwhile": total("arrived"),
        "most waiting": max(int(finding.details["waiting_peak"]) for finding in findings),
        "then caught up in": f"{total('caught_up_ms') / 1000:.1f} s",
    }


def _row(verdict: "Verdict") -> dict[str, object]:
    wanted = verdict.injected.expectation
    delay = verdict.delay_s
    return {
        "group": verdict.injected.group,
        "injected": verdict.injected.about.split(";")[0].split(".")[0],
        "expected": " ".join(filter(None, (wanted.kind, wanted.phase, wanted.cause))),
        "detected": "MISSED" if verdict.finding is None else _why(verdict.finding),
        "after": "" if delay is None else f"{delay:.1f} s",
    }


def _why(finding: "Finding") -> str:
    return f"yes ({finding.confidence:.0%} sure)" if finding.confidence < 1 else "yes"


def _silence(group: str, noise: list["Finding"]) -> str:
    said = [finding.kind.value for finding in noise if finding.group == group]
    return f"NOT SILENT: {', '.join(said)}" if said else "silent"


def _closing(judged: int, missed: int, noise: list["Finding"]) -> str:
    if missed or noise:
        return f"\n{missed} missed, {len(noise)} findings about a group that should have been silent."
    return f"\nAll {judged} injected events were detected, and the healthy group stayed silent."


def _say(text: str, *, dim: bool = False) -> None:
    click.secho(text, err=True, dim=dim)
