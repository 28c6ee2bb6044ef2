"""`alerts preview`: what a message looks like, on the terminal and as a page, before anybody gets it."""

import html
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.cli.options import config_options, identities_for, load_settings

if TYPE_CHECKING:
    from rebalance_monitor.alerts.dispatch.plan import Plan
    from rebalance_monitor.alerts.messages.blocks import Message
    from rebalance_monitor.config.model import Settings
    from rebalance_monitor.coordinator.findings.finding import Finding

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Alerts</title>
<style>body{{font:15px sans-serif;max-width:46em;margin:2em auto}}h2{{font-size:13px;color:#666}}</style>
</head><body>{body}</body></html>
"""


@click.command("preview")
@click.argument("what", metavar="FINDING|CAPTURE")
@click.option(
    "--html", "page", type=click.Path(path_type=Path, dir_okay=False), help="Also write them as an HTML page."
)
@click.option(
    "--limit",
    type=click.IntRange(1, sys.maxsize),
    default=20,
    show_default=True,
    help="Messages at most.",
)
@config_options
def preview(
    what: str, page: Path | None, limit: int, config: Path | None, assignments: tuple[str, ...]
) -> None:
    """Show the messages of FINDING, or of all notifications that a CAPTURE would have led to.

    FINDING is a file of findings as JSON lines, `-` for standard input, or the id of one in the storage
    folder.
    """
    from rebalance_monitor.alerts.render import html as html_form
    from rebalance_monitor.alerts.render import plain

    settings = load_settings(config, assignments)
    shown = list(islice(_messages(what, settings), limit))
    if not shown:
        click.echo(f"No notification would be sent for {what}.", err=True)
    for heading, message in shown:
        click.secho(heading, dim=True)
        click.echo(plain.render(message) + "\n")
    if page is not None:
        body = "".join(f"<h2>{html.escape(head)}</h2>{html_form.render(message)}" for head, message in shown)
        page.write_text(PAGE.format(body=body), encoding="utf-8")
        click.echo(f"written: {page}", err=True)


def _messages(what: str, settings: "Settings") -> Iterator[tuple[str, "Message"]]:
    from rebalance_monitor.alerts.messages.message import message_of
    from rebalance_monitor.alerts.setup.receivers import links_of

    path = Path(what)
    if path.is_dir() or path.suffix == ".parquet":
        yield from _of_capture(path, settings)
        return
    links = links_of(settings)
    for finding in _findings(what, settings):
        yield f"{finding.kind.value} {finding.phase or ''} {finding.id}", message_of(finding, links)


def _findings(what: str, settings: "Settings") -> Iterator["Finding"]:
    from rebalance_monitor.checkpoints.storage.lines import read_lines
    from rebalance_monitor.coordinator.findings.finding import from_json
    from rebalance_monitor.engine.storage import storage_at

    stored = storage_at(settings.storage.path).jsonl
    path = Path(what)
    if what == "-" or path.exists():
        lines = _text(what).split("\n")
    elif stored.exists():
        lines = [line for line in read_lines(stored) if f'"id":"{what}"' in line]
        if not lines:
            raise click.BadParameter(f"there is no file {what}, and no finding of this id in {stored}")
    else:
        raise click.BadParameter(f"there is no file {what}")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield from_json(line)
        except (ValueError, KeyError, TypeError) as error:
            raise click.BadParameter(f"line {number} of {what} is no finding: {error}") from error


def _text(what: str) -> str:
    read = sys.stdin.buffer.read() if what == "-" else Path(what).read_bytes()
    try:
        return read.decode()
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{what} holds no findings: it is no text") from error


def _of_capture(path: Path, settings: "Settings") -> Iterator[tuple[str, "Message"]]:
    from rebalance_monitor.alerts.dispatch.rehearsal import rehearse
    from rebalance_monitor.alerts.messages.text import moment
    from rebalance_monitor.cluster.captures.capture import read_capture
    from rebalance_monitor.engine.replay.replaying import replay_capture
    from rebalance_monitor.engine.settings import detection_settings

    detection = detection_settings(settings.detection, read_capture(path).metadata)
    findings = map(identities_for(settings).finding, replay_capture(path, detection))
    for at, outgoing in rehearse(rehearsal_plan(settings), findings):
        notification = outgoing.notification
        about = f"{notification.receiver} {notification.phase.value} ({outgoing.due.reason.value})"
        yield f"{moment(at)} {about}", notification.message


def rehearsal_plan(settings: "Settings") -> "Plan":
    """Return the plan of the configuration; without receivers, of one that gets everything."""
    from rebalance_monitor.alerts.setup.receivers import plan_of
    from rebalance_monitor.config.alerts import Alerts, Route
    from rebalance_monitor.config.receivers import Console, Receiver

    if not settings.alerts.is_on:
        everyone = Receiver(name="everyone", console=Console(send_updates=True, per_minute=100_000))
        section = Alerts(receivers=(everyone,), route=Route(receiver="everyone"))
        settings = settings.model_copy(update={"alerts": section})
        click.echo("No receivers are configured: this is what a receiver of everything would get.", err=True)
    return plan_of(settings, settings.cluster_name)
