"""Where records come from: the options that `capture`, `decode`, `replay` and `doctor` share.

`--capture PATH` takes a capture folder or a bare Parquet file; without it the broker of the configuration is
read, or the one that `--bootstrap` names.
"""

import os
import re
import sys
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from rebalance_monitor.coordinator.findings.wording import counted, ranges

if TYPE_CHECKING:
    from rebalance_monitor.cluster.clients.reader import Reading
    from rebalance_monitor.coordinator.findings.finding import Finding

P = ParamSpec("P")
R = TypeVar("R")
SILENT_S = 2.0
REFRESH_S = 0.5
USUAL_COLUMNS = 80


def connection_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add `--bootstrap` and `--command-config`; the verb gets `connection`: flags for `load_settings`."""

    @wraps(function)
    def connected(*given: Any, bootstrap: str | None, command_config: Path | None, **more: Any) -> R:  # noqa: ANN401 - the verb's own
        return function(*given, connection=_connection(command_config, bootstrap), **more)

    by_file = click.option(
        "--command-config",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Client properties as Kafka's own tools take them.",
    )
    return click.option(
        "--bootstrap",
        metavar="HOST:PORT",
        callback=_servers,
        help="Brokers to start from, in place of `kafka.bootstrap_servers`.",
    )(by_file(connected))


def _servers(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    """Check `--bootstrap` by its own name: whoever wrote it may have no configuration."""
    from rebalance_monitor.config.kafka.addresses import servers_of

    try:
        return None if text is None else servers_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _connection(path: Path | None, bootstrap: str | None) -> dict[str, object]:
    """Return the flags of a client properties file; `--bootstrap` wins over the servers that it names."""
    from rebalance_monitor.config.kafka.clients import Kafka
    from rebalance_monitor.config.kafka.properties_file import read_properties

    properties, servers = read_properties(path) if path else {}, "bootstrap_servers"
    if bootstrap is not None:
        properties = {name: value for name, value in properties.items() if Kafka.own_name(name) != servers}
        properties[servers] = bootstrap
    return {f"kafka.{name}": value for name, value in properties.items()}


def capture_option(function: Callable[P, R]) -> Callable[P, R]:
    """Add `--capture` (`capture: Path | None`)."""
    return click.option(
        "--capture",
        type=click.Path(path_type=Path),
        help="Read this capture folder or Parquet file, not a broker.",
    )(function)


def group_option(function: Callable[P, R]) -> Callable[P, R]:
    """Add `--group` (`pattern: str`): every name unless it is given."""
    return click.option(
        "--group",
        "pattern",
        metavar="PATTERN",
        default="*",
        help="Only groups whose name matches this pattern (`orders-*`).",
    )(function)


def is_like(group: str, pattern: str) -> bool:
    """Whether a group's name matches a shell pattern, case and all."""
    return fnmatchcase(group, pattern)


def lacking(topic: str, unled: "Collection[int]") -> str:
    """Say which partitions there is nothing of, because no broker led them; "" where there are none."""
    if not unled:
        return ""
    return f"no broker led {counted(len(unled), 'partition')} of {topic} ({ranges(sorted(unled))})"


def is_about(finding: "Finding", pattern: str) -> bool:
    """Whether a finding is about a group like the pattern, or about no group at all: the whole cluster."""
    names = [finding.group] if finding.group is not None else finding.groups
    return not names or any(is_like(name, pattern) for name in names)


class Duration(click.ParamType[float]):
    """A duration as the configuration writes it: `500ms`, `30s`, `5m`, `1h30m`, `1d`."""

    name = "duration"

    def __init__(self, least_s: float = 0) -> None:
        self._least_s = least_s

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        from rebalance_monitor.config.durations import milliseconds

        try:
            seconds = milliseconds(str(value).strip()) / 1_000
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if seconds < self._least_s:
            self.fail(f"{value!r} is too short; write {self._least_s:g}s or more", param, ctx)
        return seconds


EARLIEST_MS = 1_000_000_000
"""Twelve days after 1970: a smaller number is a duration without its unit, not a moment."""


class Moment(click.ParamType[int]):
    """A moment: `1h` (so long before now), a time (ISO 8601, UTC), or ms since epoch. Gives ms; <= 0: ago."""

    name = "moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return ms since epoch, or how long ago as a negative number."""
        from rebalance_monitor.config.durations import milliseconds

        text = str(value).strip()
        try:
            if text.isdigit():
                if 0 < int(text) < EARLIEST_MS:
                    self.fail(
                        f"{text!r} has no unit; write {text}s, {text}m, {text}h or ms since epoch", param, ctx
                    )
                return max(1, int(text))
            if not re.match(r"\d+-", text):
                return -milliseconds(text)
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is no moment; write 1h, 2026-03-01T12:30:00 or ms since epoch", param, ctx)
        return max(1, int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000))


def moment_option(name: str, what: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Add an option whose value is a `Moment` (None without it)."""
    return click.option(name, type=Moment(), metavar="AGO|TIME", help=what)


def absolute(moment: int | None, now: int) -> int | None:
    """Return the ms since epoch of a `Moment`, whose `ago` is counted back from `now` (ms)."""
    return moment if moment is None or moment > 0 else max(0, now + moment)


class Progress:
    """Says on a terminal's stderr how far it is, from 2 s on, in one line that is written over."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self._what = what
        self._total = total
        self.done = 0
        self._started = self._said = time.monotonic()
        self._shown = False

    def __call__(self, done: int) -> None:
        """Tell that `done` records are done."""
        self.done = done
        now = time.monotonic()
        if not sys.stderr.isatty() or now - self._started < SILENT_S or now - self._said < REFRESH_S:
            return
        self._said, self._shown = now, True
        share = f" of {self._total:,} ({done / self._total:.0%})" if self._total else ""
        rate = done / (now - self._started)
        line = f"{self._what} {done:,} records{share}, {rate:,.0f} a second"
        # A line that is wrapped is not written over.
        click.echo(f"\r{line[: _columns() - 1]}\x1b[K", nl=False, err=True)

    def end(self) -> None:
        """End the line."""
        if self._shown:
            click.echo("", err=True)


def _columns() -> int:
    """Return how wide stderr's terminal is; stdout may be none."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or USUAL_COLUMNS
    except OSError:
        return USUAL_COLUMNS


def span_of(reading: "Reading") -> int | None:
    """Return how many offsets a reading covers, None where it has no end."""
    if reading.until is None:
        return None
    return sum(max(0, end - reading.start.get(p, end)) for p, end in reading.until.items())
