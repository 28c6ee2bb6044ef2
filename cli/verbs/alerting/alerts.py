"""`rebalance-monitor alerts test|preview|routes|silence`: routes tried out, alerts silenced."""

import getpass
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalance_monitor.cli.exit_codes import ExitCode
from rebalance_monitor.cli.options import config_options, load_settings, storage_of
from rebalance_monitor.cli.output import Form, output_option, write_rows
from rebalance_monitor.cli.verbs.alerting.preview import preview
from rebalance_monitor.cli.verbs.alerting.routes import routes

if TYPE_CHECKING:
    from rebalance_monitor.alerts.messages.notification import Sink
    from rebalance_monitor.alerts.runtime.silences import Silence, SilenceFiles
    from rebalance_monitor.config.model import Settings

COLUMNS = ("id", "state", "matchers", "ends", "by", "comment")


@click.group()
def command() -> None:
    """Test receivers and routes, and silence alerts for a while."""


command.add_command(preview)
command.add_command(routes)


@command.command("test")
@click.argument("receiver")
@config_options
@click.option("--leave-open", is_flag=True, help="Do not resolve the test again.")
def test(receiver: str, config: Path | None, assignments: tuple[str, ...], *, leave_open: bool) -> int:
    """Send a marked test to RECEIVER and resolve it again; exit code 3 if it does not arrive."""
    from rebalance_monitor.alerts.setup.receivers import sinks_of
    from rebalance_monitor.alerts.setup.setup import names_of

    settings = load_settings(config, assignments)
    sinks = sinks_of(settings)
    receivers = names_of(settings.alerts)
    try:
        wanted = [sinks[name] for name in receivers.get(receiver, (receiver,)) if name in sinks]
        if not wanted and receiver in receivers:
            raise click.BadParameter(
                f"the receiver {receiver!r} has no integration: whatever it gets is dropped"
            )
        if not wanted:
            known = ", ".join(receivers) or "none"
            raise click.BadParameter(f"there is no receiver {receiver!r}; there are: {known}")
        arrived = [_tried(sink, settings, leave_open=leave_open) for sink in wanted]
    finally:
        for sink in sinks.values():
            sink.close()
    return ExitCode.FINE if all(arrived) else ExitCode.UNREACHABLE


def _tried(sink: "Sink", settings: "Settings", *, leave_open: bool) -> bool:
    from rebalance_monitor.alerts.gallery.sample import sample_notification
    from rebalance_monitor.alerts.messages.notification import Phase, SinkError

    cluster, now = settings.cluster_name or "test", _now()
    phases = [Phase.OPENED] if leave_open else [Phase.OPENED, Phase.RESOLVED]
    state: dict[str, str] = {}
    try:
        for phase in phases:
            state = sink.send(sample_notification(cluster, sink.name, now, phase, state), _now()).state
    except SinkError as error:
        hint = "permanent: correct the cause first" if error.permanent else "temporary: try again"
        click.echo(f"{sink.name}: {error.why} ({hint})", err=True)
        return False
    click.echo(f"{sink.name}: the test has arrived")
    return True


@command.group()
def silence() -> None:
    """Silence alerts: a running job applies a silence within a second, on a URI within five."""


@silence.command("add")
@click.argument("matchers", nargs=-1, required=True)
@click.option(
    "--for", "duration", metavar="DURATION", default="1h", show_default=True, help="How long: 30m, 2h, 1d."
)
@click.option("--comment", default="", help="Why, for those who find it.")
@click.option("--by", default=None, help="Who (default: the user who runs this).")
@config_options
def add(
    matchers: tuple[str, ...],
    duration: str,
    comment: str,
    by: str | None,
    config: Path | None,
    assignments: tuple[str, ...],
) -> None:
    r"""Silence the alerts that match all MATCHERS: 'group=~"orders-.*"' 'severity="warning"'."""
    now = _now()
    with _kept():
        files = _silences(config, assignments)
        made = files.add_for(duration, ",".join(matchers), by or _user(), comment, now)
    click.echo(f"kept in {files.folder}", err=True)
    click.echo(made.id)


@silence.command("list")
@click.option("--expired", is_flag=True, help="Silences that have ended, too.")
@config_options
@output_option(Form.TABLE)
def list_(*, expired: bool, config: Path | None, assignments: tuple[str, ...], output: Form) -> None:
    """List the active silences, the next to end first."""
    now = _now()
    with _kept():
        known, damaged = _silences(config, assignments).read()
    for why in damaged.values():
        click.echo(why, err=True)
    ordered = sorted(known, key=lambda silence: silence.ends_at)
    shown = [silence for silence in ordered if expired or silence.ends_at > now]
    write_rows([_row(silence, now) for silence in shown], output, COLUMNS)


@silence.command("expire")
@click.argument("identity", metavar="ID")
@config_options
def expire(identity: str, config: Path | None, assignments: tuple[str, ...]) -> None:
    """End the silence ID now."""
    with _kept():
        _silences(config, assignments).expire(identity, _now())
    click.echo(f"{identity} has ended")


@contextmanager
def _kept() -> Iterator[None]:
    """Say in one sentence why the storage folder cannot be used."""
    from rebalance_monitor.alerts.runtime.silences import SilenceError

    try:
        yield
    except OSError as error:
        raise SilenceError(f"the silences cannot be kept in the storage folder: {error}") from error


def _silences(config: Path | None, assignments: tuple[str, ...]) -> "SilenceFiles":
    """Return the silences of the job that the configuration names. Raises ConfigError where there is none."""
    from rebalance_monitor.alerts.runtime.silences import SilenceFiles

    return SilenceFiles(storage_of(load_settings(config, assignments)).alerts)


def _row(silence: "Silence", now: int) -> dict[str, object]:
    return {
        "id": silence.id,
        "state": "active" if silence.holds(now) else "ended",
        "matchers": ", ".join(silence.matchers),
        "ends": _moment(silence.ends_at),
        "by": silence.created_by,
        "comment": silence.comment,
    }


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1_000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container's user may have no name.
        return "unknown"


def _now() -> int:
    return time.time_ns() // 1_000_000
